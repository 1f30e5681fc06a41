"""TreeCursor: which row the operator is on, by identity. Pure; the widget draws what it says.

Rows move with every sample. The cursor stays on its process, and when that process ends it stays where it is, on a row
that says so: the next key must never reach a process that merely slid under the cursor.
"""

from __future__ import annotations

from collections.abc import Sequence

from console.agent.protocol import Identity
from console.host.state import HostState, Process
from console.host.tree import TreeRow


class TreeCursor:
    """Rows with a cursor. ``index`` counts lines: the rows, and the ghost in its place when there is one."""

    def __init__(self) -> None:
        self.rows: Sequence[TreeRow] = ()
        self.index = 0
        self.identity: Identity | None = None
        self.ghost: Process | None = None
        """The process that ended under the cursor; its line is at ``index``."""
        self._process: Process | None = None

    @property
    def height(self) -> int:
        """Number of lines."""
        return len(self.rows) + (self.ghost is not None)

    @property
    def selected(self) -> TreeRow | None:
        """The row under the cursor; None on a ghost and when there are no rows."""
        return None if self.ghost else self.line(self.index)

    def line(self, index: int) -> TreeRow | None:
        """Return the row on line ``index``; None for the ghost and outside."""
        if self.ghost is not None:
            if index == self.index:
                return None
            index -= index > self.index
        return self.rows[index] if 0 <= index < len(self.rows) else None

    def update(self, rows: Sequence[TreeRow], state: HostState) -> None:
        """Take in new rows; the cursor goes where its process went."""
        self.rows = rows
        if self.identity is None:
            self._select(0)
            return
        found = next((i for i, row in enumerate(rows) if row.identity == self.identity), None)
        if found is not None:
            self._select(found)
        elif _alive(self.identity, state):
            self._select(self._stand_in(state))
        else:
            self.ghost = self._process
            self.index = min(self.index, len(rows))

    def move_to(self, index: int) -> None:
        """Put the cursor on line ``index``, or the nearest there is; a ghost that is left is gone."""
        index = max(0, min(index, self.height - 1))
        if self.ghost is not None:
            if index == self.index:
                return
            index -= index > self.index
            self.ghost = None
        self._select(index)

    def move(self, lines: int) -> None:
        """Move the cursor by ``lines``."""
        self.move_to(self.index + lines)

    def prefer_match(self) -> None:
        """Leave a row that is shown only for what is below it; for use after the operator changed the view."""
        row = self.selected
        if row is not None and row.context:
            self._select(self._first_match())

    def parent_index(self) -> int | None:
        """Return the line of the parent of the selected row, if it is shown."""
        row = self.selected
        if row is None or row.depth == 0:
            return None
        return next((i for i in range(self.index - 1, -1, -1) if self.rows[i].depth < row.depth), None)

    def _select(self, index: int) -> None:
        self.ghost = None
        self.index = index
        row = self.line(index)
        self.identity = row.identity if row else None
        self._process = row.process if row else None

    def _stand_in(self, state: HostState) -> int:
        """Return the row for a process that the operator has hidden: the folded node above it, else the first match."""
        assert self.identity is not None
        by_pid = {row.process.pid: index for index, row in enumerate(self.rows)}
        pid, seen = self.identity[1], set[int]()
        while pid in state.processes and pid not in seen:
            seen.add(pid)
            pid = state.processes[pid].ppid
            index = by_pid.get(pid)
            if index is not None and self.rows[index].folded:
                return index
        return self._first_match()

    def _first_match(self) -> int:
        return next((i for i, row in enumerate(self.rows) if not row.context), 0)


def _alive(identity: Identity, state: HostState) -> bool:
    process = state.processes.get(identity[1])
    return process is not None and state.identity(process) == identity
