"""Snapshot: what the dashboard shows at one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from console.host.link import CONNECTING, UP
from console.host.state import HostState

STALE_AFTER_S = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One frozen reading of the link: state, status and the age of the process list.

    Every reading is another one: comparing two states process by process would cost more than drawing them.
    """

    state: HostState
    status: Any
    """``console.host.link.LinkStatus``."""
    age_s: float | None
    """Seconds since the last ``procs`` event; None before the first."""
    wall_s: float
    """Operator's wall clock."""
    stale_after_s: float = STALE_AFTER_S
    retry_left_s: float | None = None
    """Seconds to the next attempt to connect; None when none is planned."""

    @property
    def up(self) -> bool:
        """True while the link is up."""
        return bool(self.status.phase == UP)

    @property
    def connecting(self) -> bool:
        """True while a first connection is being made: no data yet, and nothing is wrong."""
        return bool(self.status.phase == CONNECTING) and not self.state.complete and self.status.attempt <= 1

    @property
    def stale(self) -> bool:
        """True when what is on the screen may not be so any more: no action may start from it."""
        return not self.up or not self.state.complete or self.age_s is None or self.age_s > self.stale_after_s

    @property
    def why_no_action(self) -> str:
        """Return why no action may start now, in one sentence; empty when one may."""
        if not self.up:
            return f"No action while the link is down: {(self.status.text or self.status.phase).rstrip('.')}."
        if not self.state.complete:
            return "No action before the first full process list has arrived."
        if self.age_s is None or self.age_s > self.stale_after_s:
            return f"No action on stale data: the process list is {self.age_s or 0:.0f} s old. Wait until it is fresh."
        return ""
