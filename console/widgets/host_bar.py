"""HostBar: which host this is, how the link is, and the host's own figures."""

from __future__ import annotations

from textual.content import Content

from console.host.host_lines import chip, gauges_line, identity_line, missing_text
from console.host.thresholds import Thresholds
from console.widgets.lines_view import LinesView
from console.widgets.snapshot import Snapshot


class HostBar(LinesView):
    """Two lines at the top of the screen; its tooltip says why figures are n/a."""

    def __init__(self, name: str, limits: Thresholds, *, widget_id: str | None = None) -> None:
        super().__init__(widget_id=widget_id)
        self._host_name = name
        self._limits = limits
        self._why = ""

    def show_snapshot(self, snapshot: Snapshot, alerts: int) -> None:
        """Show ``snapshot``; ``alerts`` is how many are open."""
        width = self.app.size.width
        link = chip(snapshot.status, snapshot.age_s, snapshot.retry_left_s, snapshot.stale)
        first = identity_line(self._host_name, snapshot.state, link, width, wall_s=snapshot.wall_s, alerts=alerts)
        self.show_lines((first, gauges_line(snapshot.state.gauges, width, self._limits)))
        why = missing_text(snapshot.state.gauges)
        if why != self._why:
            self._why = why
            self.tooltip = Content(why) if why else None
