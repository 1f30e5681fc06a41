"""One process as a line of the table. Pure."""

from __future__ import annotations

from functools import lru_cache

from console.agent.protocol import command_line, printable
from console.host import lines, tones
from console.host.figures import NOT_AVAILABLE, NOTHING, age_text, size_text
from console.host.layout_figures import Column, taken
from console.host.lines import BAD, DIM, GOOD, HEAD, PLAIN, WARN, Line, Piece, crop, pad
from console.host.state import HostState, Process
from console.host.tree import TreeRow

_STATES = {
    "S": "sleep",
    "R": "run",
    "D": "disk",
    "T": "paused",
    "t": "traced",
    "Z": "zombie",
    "X": "dead",
    "I": "idle",
}
_STATE_TONES = {"R": GOOD, "D": WARN, "T": tones.PAUSED, "t": tones.PAUSED, "Z": BAD, "X": BAD}

WIDE_PAUSE = 100
"""From this width a pause tells who made it."""


def heading_line(columns: tuple[Column, ...], sort: str) -> Line:
    """Return the headings; the one that rows are sorted by is marked."""
    pieces = []
    for column in columns:
        mark = "▼" if column.key == sort else ""
        text = pad(crop(column.heading + mark, column.width), column.width, right=column.right)
        pieces.append((text + " ", HEAD if mark else DIM))
    return (*pieces, ("COMMAND" + ("▼" if sort == "command" else ""), HEAD if sort == "command" else DIM))


def process_line(row: TreeRow, state: HostState, columns: tuple[Column, ...], width: int, *, found: str = "") -> Line:
    """Return ``row`` in at most ``width`` (40 or more) cells. A folded node shows the sums of its subtree, marked Σ."""
    pieces: list[Piece] = []
    for column in columns:
        text, tone = _cell(column, row, state)
        pieces.append(
            (pad(crop(text, column.width), column.width, right=column.right) + " ", DIM if row.context else tone)
        )
    room = width - taken(columns)
    guide = crop(row.guide, max(1, room - 12))
    pieces.append((guide, tones.GUIDE))
    return (*pieces, *_command(row, state, room - lines.cells(guide), wide=width >= WIDE_PAUSE, found=found))


def ghost_line(process: Process, columns: tuple[Column, ...], width: int) -> Line:
    """Return the line of a process that ended while the cursor was on it."""
    known = {
        "pid": str(process.pid),
        "user": printable(process.user),
        "state": "✕" if _state_width(columns) < 4 else "ended",
    }
    cells = [(pad(crop(known.get(c.key, ""), c.width), c.width, right=c.right) + " ", DIM) for c in columns]
    room = width - taken(columns)
    return (*cells, ("ended ", WARN), (crop(command_text(process), room - 6), DIM))


def _state_width(columns: tuple[Column, ...]) -> int:
    return next((c.width for c in columns if c.key == "state"), 0)


@lru_cache(maxsize=4096)
def _command_line(argv: tuple[str, ...], comm: str) -> str:
    return command_line(list(argv), comm)


def command_text(process: Process) -> str:
    """Return the whole command line, safe to show."""
    return _command_line(process.argv, process.comm)


def _cell(column: Column, row: TreeRow, state: HostState) -> Piece:
    process, summed = row.process, row.folded
    match column.key:
        case "pid":
            return (str(process.pid), PLAIN)
        case "user":
            return (printable(process.user), PLAIN)
        case "state":
            return _state(process, column.width)
        case "gpu":
            return _gpu(row)
        case "cpu":
            cpu = row.tree_cpu_percent if summed else process.cpu_percent
            return (NOTHING, DIM) if cpu is None else (f"{cpu:.0f}%", DIM if cpu < 0.5 else PLAIN)
        case "rss":
            return (size_text(row.tree_rss_bytes if summed else process.rss_bytes), PLAIN)
        case "age":
            return (age_text(state.age_s(process)), PLAIN)
        case _:
            return (str(process.threads), DIM)


def _state(process: Process, width: int) -> Piece:
    letter = process.state
    tone = _STATE_TONES.get(letter, DIM)
    if width < 4:
        return ("⏸" if letter == "T" else printable(letter), tone)
    return (_STATES.get(letter, printable(letter)), tone)


def _gpu(row: TreeRow) -> Piece:
    holds = row.tree_holds_gpu if row.folded else row.holds_gpu
    if not holds:
        return (NOTHING, DIM)
    # A sum of nothing but unknown figures is unknown too.
    size = row.tree_gpu_bytes or None if row.folded else row.gpu_bytes
    return (NOT_AVAILABLE, PLAIN) if size is None else (size_text(size), tones.ACCENT)


def _command(row: TreeRow, state: HostState, room: int, *, wide: bool, found: str) -> list[Piece]:
    process = row.process
    lead: list[Piece] = []
    if row.folded:
        lead.append((f"Σ{row.tree_count} " if not wide else f"Σ {row.tree_count} processes · ", tones.ACCENT))
    if process.state == "T":
        lead.append((pause_text(process, state, wide=wide) + " ", tones.PAUSED))
    if process.ours:
        lead.append(("(ours) ", DIM))
    room -= sum(lines.cells(text) for text, _ in lead)
    shown = crop(command_text(process), room)
    plain = DIM if row.context or process.ours else PLAIN
    return [*lead, *_marked(shown, found, plain)]


def _marked(text: str, found: str, tone: str) -> list[Piece]:
    """Return ``text`` with the first occurrence of ``found`` in a tone of its own."""
    lowered = text.casefold()
    # Folding may lengthen a text (ß): places in the two would then differ.
    start = lowered.find(found.casefold()) if found and len(lowered) == len(text) else -1
    if start < 0:
        return [(text, tone)]
    end = start + len(found.casefold())
    return [(text[:start], tone), (text[start:end], tones.FOUND), (text[end:], tone)]


def pause_text(process: Process, state: HostState, *, wide: bool) -> str:
    """Return how long a process has been stopped and by whom: ``⏸ 4m 05s by ops@laptop``; short: ``⏸4m``."""
    pause = state.pause_of(process)
    if pause is None:
        return "⏸"
    age = age_text(max(0.0, state.wall - pause.since))
    if not wide:
        return "⏸" + age.split(" ", 1)[0]
    return f"⏸ {age} by {printable(pause.by)}" if pause.by else f"⏸ {age}, not by a console"
