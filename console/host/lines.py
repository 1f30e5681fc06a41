"""Lines of text with a tone for each piece, so that a terminal and a dialog show the same words from one renderer."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

Piece = tuple[str, str]
"""``(text, tone)``; the text has been through :func:`console.agent.protocol.printable`."""

Line = tuple[Piece, ...]

PLAIN = ""
DIM = "dim"
STRONG = "strong"
HEAD = "head"
GOOD = "good"
WARN = "warn"
BAD = "bad"
TONES = (PLAIN, DIM, STRONG, HEAD, GOOD, WARN, BAD)


def line(*pieces: Piece | str) -> Line:
    """Return a line of ``pieces``; a bare string has the plain tone."""
    return tuple((piece, PLAIN) if isinstance(piece, str) else piece for piece in pieces)


def plain(shown: Line) -> str:
    """Return the text of a line without its tones and without trailing blanks."""
    return "".join(text for text, _ in shown).rstrip()


def plain_all(shown: Iterable[Line]) -> list[str]:
    """Return the text of every line."""
    return [plain(each) for each in shown]


def cells(text: str) -> int:
    """Return how many terminal cells ``text`` takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_char_cells(char) for char in text)


def _char_cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def crop(text: str, width: int) -> str:
    """Return ``text`` in at most ``width`` cells, with an ellipsis where something was cut."""
    if cells(text) <= width:
        return text
    if width < 1:
        return ""
    return _take(text, width - 1) + "…"


def _take(text: str, width: int) -> str:
    """Return the longest beginning of ``text`` that fits in ``width`` cells."""
    if text.isascii():
        return text[:width]
    used = 0
    for index, char in enumerate(text):
        used += _char_cells(char)
        if used > width:
            return text[:index]
    return text


def wrap(text: str, width: int, rest_width: int | None = None) -> list[str]:
    """Return ``text`` in lines of ``width`` cells at most, the later ones of ``rest_width``; only blanks get lost."""
    width = max(width, 2)
    out: list[str] = []
    rest = text
    while cells(rest) > width:
        head = _take(rest, width)
        cut = len(head) if rest[len(head)] == " " else head.rfind(" ")
        if cut <= 0 or not head[:cut].strip():
            cut = len(head)
        out.append(head[:cut].rstrip())
        rest = rest[cut:].lstrip()
        width = width if rest_width is None else max(rest_width, 2)
    return [*out, rest] if rest or not out else out


def wrapped(text: str, width: int, *, tone: str = PLAIN, first: str = "") -> Iterator[Line]:
    """Yield ``text`` wrapped to ``width`` cells: ``first`` before the first line, as many blanks before the others."""
    rest = " " * cells(first)
    for index, part in enumerate(wrap(text, width - cells(first))):
        yield (((first if index == 0 else rest) + part, tone),)


def hanging(text: str, width: int, *, tone: str = PLAIN) -> Iterator[Line]:
    """Yield ``text`` wrapped to ``width`` cells, every line but the first indented by two."""
    for index, part in enumerate(wrap(text, width, width - 2)):
        yield (("  " + part if index else part, tone),)


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Return ``text`` filled with blanks to ``width`` cells; ``right`` aligns it to the right."""
    blanks = " " * max(0, width - cells(text))
    return blanks + text if right else text + blanks
