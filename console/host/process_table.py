"""The table of a plan's processes: one row a process, the tree drawn in front of its command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from console.agent.protocol import Identity, command_line, printable
from console.host import lines
from console.host.actions import PlannedProcess
from console.host.figures import NOTHING, age_text, size_text
from console.host.lines import Line, Piece

MAX_GUIDES = 8
"""Deeper trees are drawn no deeper: the command needs the room."""

MAX_USER_CELLS = 12
MIN_COMMAND_CELLS = 16

WIDE = 100
"""From this width on, columns have their long titles."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of figures in front of the command."""

    title: str
    cell: Callable[[PlannedProcess], str]
    right: bool = True
    short: str = ""
    """Title in a narrow table."""


def signals_text(process: PlannedProcess) -> str:
    """Return what the action sends to ``process``: ``STOP``, ``TERM+CONT``; ``waits`` when nothing."""
    return "+".join(printable(name).removeprefix("SIG") for name in process.sends) or "waits"


COLUMNS = (
    Column("PID", lambda p: str(p.pid)),
    Column("USER", lambda p: lines.crop(printable(p.user), MAX_USER_CELLS), right=False),
    Column("AGE", lambda p: age_text(p.age_s)),
    Column("ST", lambda p: printable(p.state) or NOTHING, right=False),
    Column("GPU MEM", lambda p: size_text(p.gpu_bytes), short="GPU"),
    Column("RSS", lambda p: size_text(p.rss_bytes)),
)
SIGNALS = Column("SIGNAL", signals_text, right=False, short="SIG")


def table_lines(
    processes: Sequence[PlannedProcess],
    width: int,
    *,
    signals: bool,
    whole: bool = False,
    roots: Collection[Identity] = (),
) -> tuple[Line, list[Line]]:
    """Return the table's head and its rows, at most ``width`` cells wide.

    Args:
        processes: the rows, in the order of the tree.
        width: cells of the table; below 100 the titles are short.
        signals: add the column of what is sent to each.
        whole: show commands whole over as many lines as they take, else one line each, cut with an ellipsis.
        roots: what the operator chose; why the others are in the set is said where the tree does not show it.
    """
    columns = (*COLUMNS, SIGNALS) if signals else COLUMNS
    cells = [[column.cell(process) for column in columns] for process in processes]
    titles = [column.title if width >= WIDE else column.short or column.title for column in columns]
    widths = [max(map(lines.cells, column)) for column in zip(titles, *cells, strict=True)]
    lead = sum(widths) + len(widths) + 1
    room = max(width - lead, MIN_COMMAND_CELLS)
    head = _row(titles, columns, widths) + "COMMAND"
    body: list[Line] = []
    members = {process.pid for process in processes}
    for process, row, guide in zip(processes, cells, tree_guides([p.depth for p in processes]), strict=True):
        lead_text = _row(row, columns, widths)
        body.extend(_command_lines(process, lead_text, guide, room, whole))
        why = _why(process, members, roots)
        if why:
            indent = " " * (lead + lines.cells(guide))
            body.extend(lines.wrapped(why, lead + room, tone=lines.DIM, first=f"{indent}↳ "))
    return ((lines.crop(head, lead + room), lines.HEAD),), body


def _row(row: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    cells = zip(row, columns, widths, strict=True)
    return " ".join(lines.pad(cell, width, right=column.right) for cell, column, width in cells) + "  "


def _command_lines(process: PlannedProcess, lead: str, guide: str, room: int, whole: bool) -> list[Line]:
    command = command_line(list(process.argv), process.comm)
    space = max(room - lines.cells(guide), MIN_COMMAND_CELLS // 2)
    parts = lines.wrap(command, space) if whole else [lines.crop(command, space)]
    tone = lines.PLAIN if process.depth else lines.STRONG
    first: list[Piece] = [(lead, lines.PLAIN), (guide, lines.DIM), (parts[0], tone)]
    indent = " " * (lines.cells(lead) + lines.cells(guide))
    return [tuple(first), *(((indent + part, tone),) for part in parts[1:])]


def _why(process: PlannedProcess, members: Collection[int], roots: Collection[Identity]) -> str:
    """Return why ``process`` is in the set; "" when the table shows it: it was chosen, or its parent is a row."""
    if process.identity in roots or (process.depth and process.ppid in members):
        return ""
    return printable(process.why)


def tree_guides(depths: Sequence[int]) -> list[str]:
    """Return what is drawn in front of each row of a tree, given in order by depth: ``├ ``, ``└ `` and their stems."""
    guides = [""] * len(depths)
    open_levels: set[int] = set()
    for index in range(len(depths) - 1, -1, -1):
        depth = max(depths[index], 0)
        open_levels = {level for level in open_levels if level <= depth}
        if depth:
            stem = "".join("│ " if level in open_levels else "  " for level in range(1, depth))
            guides[index] = stem[-2 * (MAX_GUIDES - 1) :] + ("├ " if depth in open_levels else "└ ")
        open_levels.add(depth)
    return guides
