"""GpuPanel: every GPU of the host at a glance."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.geometry import Size

from console.host.gpu_lines import driver_line, gpu_lines, panel_title, small_lines
from console.host.history import UtilisationHistory
from console.host.lines import Line
from console.host.state import HostState
from console.host.thresholds import Thresholds
from console.widgets.lines_view import LinesView
from console.widgets.titles import titled

FULL_FROM_HEIGHT = 30
"""Rows of the terminal from which every GPU has a line of its own."""


class GpuPanel(LinesView):
    """One line a GPU, or small bars side by side where the terminal is low or the GPUs are many."""

    def __init__(self, limits: Thresholds, *, widget_id: str | None = None) -> None:
        super().__init__(widget_id=widget_id)
        self._limits = limits
        self._history = UtilisationHistory()
        self._state = HostState()
        self._title: Content | None = None

    def show_state(self, state: HostState) -> None:
        """Show ``state`` and add its samples to the history."""
        self._state = state
        self._history.add(state.gpus)
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Lay the lines out for another width."""
        self._draw()

    def _draw(self) -> None:
        title = titled(panel_title(self._state))
        if title != self._title:
            self._title = title
            self.border_title = title
        self.show_lines(self._lines_for(self.size.width))

    def _lines_for(self, width: int) -> list[Line]:
        state = self._state
        said = driver_line(state.driver, len(state.gpus))
        out: list[Line] = [] if said is None else [said]
        if state.gpus and width > 0:
            height = self.app.size.height
            full = height >= FULL_FROM_HEIGHT and len(state.gpus) <= height // 3
            out += (
                gpu_lines(state, self._history, width, self._limits)
                if full
                else small_lines(state, width, self._limits)
            )
        return out

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines at ``width``."""
        return len(self._lines_for(width))
