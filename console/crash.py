"""What is left when the console itself fails: a file for whoever mends it, one sentence for the operator."""

from __future__ import annotations

import traceback
from pathlib import Path

from console.agent.protocol import printable
from console.settings import state_folder


def crash_path() -> Path:
    """Return the file that holds the last crash."""
    return state_folder() / "crash.log"


def record_crash(error: BaseException, path: Path | None = None) -> str:
    """Write the traceback of ``error``, without the values of variables, and return the sentence for the operator."""
    path = path or crash_path()
    what = f"eagle3-console stopped by a fault of its own ({type(error).__name__}: {printable(str(error))[:200]})."
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)), encoding="utf-8", errors="backslashreplace")
    except OSError as failed:
        return f"{what} Its details cannot be written to {path}: {failed.strerror}. What runs on the host goes on."
    return f"{what} What runs on the host goes on; start the console again. The details are in {path}."
