"""Alerts and faults of a host as lines, newest first. Pure."""

from __future__ import annotations

import time

from console.agent.protocol import printable
from console.host.lines import BAD, DIM, STRONG, WARN, Line, Piece, cells, crop
from console.host.state import Alert, HostState


def open_alerts(state: HostState, dismissed_at: float) -> tuple[Alert, ...]:
    """Return the alerts later than ``dismissed_at`` (wall clock of the host), newest first."""
    return tuple(alert for alert in reversed(state.alerts) if alert.at > dismissed_at)


def alert_lines(state: HostState, alerts: tuple[Alert, ...], width: int, at_most: int) -> list[Line]:
    """Return at most ``at_most`` lines: the agent's faults (they last), then alerts; the last counts those left out."""
    entries: list[tuple[Piece, str]] = [
        ((f"▲ {printable(part)} ", BAD), printable(text)) for part, text in sorted(state.faults.items())
    ]
    for alert in alerts:
        clock = time.strftime("%H:%M:%S", time.localtime(alert.at))
        entries.append(((f"▲ {clock} ", WARN if alert.kind == "fault" else BAD), printable(alert.text)))
    shown = entries[:at_most]
    hidden = len(entries) - len(shown)
    out: list[Line] = []
    for index, (head, text) in enumerate(shown):
        tail = f"  and {hidden} more" if hidden and index == len(shown) - 1 else ""
        room = width - 1 - cells(head[0]) - cells(tail)
        out.append(((" ", DIM), head, (crop(text, room), STRONG), (tail, DIM)))
    return out
