"""Bindings as data: every key of the console by screen, with the operator's keymap applied and checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from console.host.errors import SettingsError
from console.nearest import did_you_mean


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One thing that keys do: its binding id, the keys that do it now, what they do."""

    id: str
    keys: tuple[str, ...]
    description: str
    tooltip: str


@dataclass(frozen=True, slots=True)
class KeySection:
    """The keys of one place of the console."""

    title: str
    lines: tuple[KeyLine, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A place and the classes whose bindings work there at the same time."""

    title: str
    classes: tuple[type[DOMNode], ...]


def own_bindings(classes: Iterable[type[DOMNode]]) -> list[Binding]:
    """Return the bindings that ``classes`` themselves declare and that have an id; several keys stay one binding."""
    declared: list[BindingType] = [each for cls in classes for each in cls.__dict__.get("BINDINGS", ())]
    return [each for each in declared if isinstance(each, Binding) and each.id]


def sections(places: Sequence[Place], keymap: Mapping[str, str]) -> list[KeySection]:
    """Return the keys of all places, as they are with ``keymap``."""
    found = []
    for place in places:
        lines = tuple(
            KeyLine(b.id or "", _keys(b, keymap), b.description, b.tooltip or b.description)
            for b in own_bindings(place.classes)
        )
        if lines:
            found.append(KeySection(place.title, lines))
    return found


def _keys(binding: Binding, keymap: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(key.strip() for key in keymap.get(binding.id or "", binding.key).split(","))


def check_keymap(keymap: Mapping[str, str], places: Sequence[Place], everywhere: Sequence[type[DOMNode]]) -> None:
    """Check that every id exists and no key does two things in one place.

    ``everywhere`` are the classes whose bindings work in every place.

    Raises:
        SettingsError: an id is not known, or a key would be taken from what it does now.
    """
    known = {b.id for place in places for b in own_bindings((*place.classes, *everywhere)) if b.id}
    for wrong in keymap:
        if wrong not in known:
            raise SettingsError(f'[keymap]: unknown binding "{wrong}"{did_you_mean(wrong, known)}')
    for place in places:
        taken: dict[str, str] = {}
        for binding in own_bindings((*place.classes, *everywhere)):
            for key in map(_normal, _keys(binding, keymap)):
                other = taken.setdefault(key, binding.id or "")
                if other != binding.id and (other in keymap or binding.id in keymap):
                    raise SettingsError(
                        f'[keymap]: the key "{key}" would be both {other} and {binding.id} ({place.title}); '
                        "give one of them another key."
                    )


def _normal(key: str) -> str:
    """Return the name that Textual gives a key: ``question_mark`` for ``?``."""
    return next(iter(Binding.make_bindings([Binding(key, "")]))).key
