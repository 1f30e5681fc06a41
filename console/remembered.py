"""What the console remembers by itself between runs: the theme that was picked. Never in the operator's config."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from console.settings import state_folder


@dataclass(frozen=True, slots=True)
class Remembered:
    """The choices of earlier runs; None where there was none."""

    theme: str | None = None


def ui_state_path() -> Path:
    """Return the file that holds them."""
    return state_folder() / "ui.json"


def load_remembered(path: Path | None = None) -> tuple[Remembered, str]:
    """Return the choices and a notice for the operator, empty when all is well. A broken file is as good as none."""
    path = path or ui_state_path()
    try:
        values = json.loads(path.read_bytes())
        theme = values.get("theme")
        if theme is not None and not isinstance(theme, str):
            raise ValueError("theme is not a text")
    except FileNotFoundError:
        return Remembered(), ""
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        return (
            Remembered(),
            f"{path} is ignored, it cannot be understood ({error}); the next choice of a theme replaces it.",
        )
    return Remembered(theme=theme), ""


def save_remembered(choices: Remembered, path: Path | None = None) -> None:
    """Replace the file atomically.

    Raises:
        OSError: the folder or the file cannot be written.
    """
    path = path or ui_state_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(choices), file)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
