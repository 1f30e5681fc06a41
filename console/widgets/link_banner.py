"""LinkBanner: a line that says, while it is so, that what is shown is old or that the host cannot be reached."""

from __future__ import annotations

from console.agent.protocol import printable
from console.host.figures import age_text
from console.host.lines import PLAIN, Line, wrap
from console.widgets.lines_view import LinesView
from console.widgets.snapshot import Snapshot

MOST_LINES = 3


def banner_lines(name: str, snapshot: Snapshot, width: int, reconnect_key: str) -> list[Line]:
    """Return nothing while all is well, else why no action is possible and what happens next."""
    status, age = snapshot.status, snapshot.age_s
    if not snapshot.stale:
        return []
    if not snapshot.up:
        text = printable(status.text) or f"{status.phase} {name}"
        if snapshot.connecting:
            return _wrapped(text.rstrip(".") + " …", width)
        old = "" if age is None else f" What is shown is {age_text(age)} old, actions are off."
        return _wrapped(f"{text.rstrip('.')}.{old} Press {reconnect_key} to try now.", width)
    if not snapshot.state.complete or age is None:
        return _wrapped(f"Connected to {name}; waiting for the first process list.", width)
    text = f"The data is {age:.0f} s old: the host or the way to it is slow. Actions are off until it is fresh again."
    return _wrapped(text, width)


def _wrapped(text: str, width: int) -> list[Line]:
    return [((f" {part}", PLAIN),) for part in wrap(text, max(10, width - 2))[:MOST_LINES]]


class LinkBanner(LinesView):
    """Shown only while the data is stale; red when the link is down, yellow when it is slow."""

    def show_snapshot(self, name: str, snapshot: Snapshot, reconnect_key: str) -> None:
        """Show what is to be said about the link now."""
        shown = banner_lines(name, snapshot, self.app.size.width, reconnect_key)
        self.display = bool(shown)
        self.set_class(not snapshot.up and not snapshot.connecting, "-down")
        self.show_lines(shown)
