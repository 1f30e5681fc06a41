"""Read a TOML file into a pydantic model, with one sentence for the operator when it does not fit."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from console.host.errors import SettingsError
from console.nearest import did_you_mean

Model = TypeVar("Model", bound=BaseModel)


def read_toml(path: Path, model: type[Model]) -> Model:
    """Return the file at ``path`` as ``model``.

    Raises:
        SettingsError: it cannot be read, is not TOML, or does not fit; the sentence names the file and the key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is not UTF-8 text: save it as UTF-8.") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is not valid TOML: {error}.") from None
    return validated(values, model, str(path))


def validated(values: Mapping[str, Any], model: type[Model], where: str) -> Model:
    """Return ``values`` as ``model``; ``where`` opens the sentence of an error.

    Raises:
        SettingsError: they do not fit.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise SettingsError(f"{where}: {_sentence(error, model)}") from None


def _sentence(error: ValidationError, model: type[BaseModel]) -> str:
    problems = error.errors(include_url=False, include_context=False)
    first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    location = first["loc"]
    key = ".".join(str(part) for part in location)
    if first["type"] == "extra_forbidden":
        text = f'unknown key "{key}"{did_you_mean(str(location[-1]), _keys_at(model, location[:-1]))}'
    elif first["type"] == "missing":
        text = f'the key "{key}" is missing'
    else:
        text = f'"{key}": {first["msg"].removeprefix("Value error, ")}, not {_short(first["input"])}'
    more = len(problems) - 1
    end = "" if text.endswith("?") else "."
    return text + end + (f" ({more} more in this file)" if more else "")


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "…"


def _keys_at(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    """Return the keys that are known at ``location`` below ``model``."""
    here: type[BaseModel] = model
    for part in location:
        field = here.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field is not None else None
        # Below a mapping of names to models (``hosts``) the name itself is no field.
        here = inner or here
    return list(here.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
