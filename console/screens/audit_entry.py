"""AuditEntryScreen: one recorded action, target by target."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Footer

from console.host.audit import AuditEntry, entry_lines
from console.screens.dialog import Dialog, Lines, set_title


class AuditEntryScreen(Dialog[None]):
    """Shows one recorded action in full."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "close", "Close", id="audit_entry.close", key_display="esc", tooltip="Back"),
    ]

    def __init__(self, entry: AuditEntry, host: str) -> None:
        super().__init__()
        self._entry = entry
        self._host = host

    def compose(self) -> ComposeResult:
        """Yield the frame and its lines."""
        with Vertical(id="dialog", classes="dialog"):
            yield Lines("body")
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show the action."""
        set_title(self, f"{self._entry.action} on {self._host}, as recorded")
        self.appeared()
        self._draw()

    def _draw(self) -> None:
        self.query_one("#dialog").styles.width = self.frame_width
        body = self.query_one("#body", Lines)
        body.show(entry_lines(self._entry, self.text_width))
        body.limit(self.frame_height - 3)
        if body.can_focus:
            body.focus()

    def on_resize(self) -> None:
        """Lay the action out for the new size."""
        if self.query("#dialog"):
            self._draw()

    def action_close(self) -> None:
        """Close the view."""
        self.close(None)
