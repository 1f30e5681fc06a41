"""QuitScreen: asks before the console is left while an action is under way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Footer

from console.host.figures import count_text
from console.host.lines import PLAIN, Line, wrapped
from console.screens.dialog import Dialog, Lines, set_title


class QuitScreen(Dialog[bool]):
    """Dismissed with True to leave. The focus is on staying."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stay", "Stay", id="quit.stay", tooltip="Stay and see how the action ends"),
        Binding("left", "app.focus_previous", "Left", show=False, id="quit.left", tooltip="To the button on the left"),
        Binding("right", "app.focus_next", "Right", show=False, id="quit.right", tooltip="To the button on the right"),
    ]
    AUTO_FOCUS = "#stay"
    MAX_WIDTH = 72

    def __init__(self, running: Sequence[str]) -> None:
        super().__init__()
        self._under_way = tuple(running)

    def compose(self) -> ComposeResult:
        """Yield the question and its two answers."""
        with Vertical(id="dialog", classes="dialog -warning"):
            yield Lines("body")
            with Horizontal(classes="buttons"):
                yield Button("Stay", id="stay")
                yield Button("Quit", id="leave", variant="warning")
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show what is under way."""
        set_title(self, "Quit?")
        self.query_one("#dialog").styles.width = self.frame_width
        body = self.query_one(Lines)
        body.show(self._lines())
        body.limit(8)
        self.appeared()

    def _lines(self) -> list[Line]:
        what = f"{count_text(len(self._under_way), 'action')} under way on the host: {', '.join(self._under_way)}."
        rest = (
            "The agent ends with the console: signals that were sent stay sent, but nothing more is done or verified, "
            "and the audit file will not tell how it ended."
        )
        return [*wrapped(what, self.text_width, tone=PLAIN), *wrapped(rest, self.text_width, tone=PLAIN)]

    @on(Button.Pressed, "#stay")
    def action_stay(self) -> None:
        """Stay."""
        self.close(False)

    @on(Button.Pressed, "#leave")
    def _leave(self) -> None:
        self.close(True)
