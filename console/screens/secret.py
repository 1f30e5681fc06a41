"""SecretScreen: ask for a passphrase, a password or a code; the answer goes to the caller and nowhere else."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Footer, Input

from console.agent.protocol import printable
from console.host import lines
from console.screens.dialog import Clock, Dialog, Told, set_title


class SecretScreen(Dialog["str | None"]):
    """Returns what was typed, None when the operator gave up. Nothing typed is kept, suggested or remembered."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "answer", "Answer", id="secret.answer", tooltip="Hand over what was typed"),
        Binding("escape", "give_up", "Give up", id="secret.give_up", tooltip="Close this without an answer"),
    ]

    def __init__(self, title: str, prompt: str, echo: bool = False, *, clock: Clock = time.monotonic) -> None:
        super().__init__(clock=clock)
        self._question = (printable(title), printable(prompt))
        self._echo = echo

    def compose(self) -> ComposeResult:
        """Yield the prompt and the field."""
        with Vertical(id="dialog", classes="dialog"):
            yield Told("prompt")
            yield Input(password=not self._echo, id="secret", suggester=None, validate_on=(), select_on_focus=False)
            with Horizontal(classes="buttons"):
                yield Button("Cancel", id="cancel")
                yield Button("OK", id="confirm", variant="primary")
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show the question with the focus on the field."""
        set_title(self, self._question[0])
        self.query_one("#secret", Input).focus()
        self._draw()
        # An enter meant for what was there before would hand over an empty secret: one attempt less.
        self.appeared()

    def _draw(self) -> None:
        width = min(self.frame_width, 80)
        self.query_one("#dialog").styles.width = width
        # A host may send a long prompt: what it asks for stands in its last lines.
        shown = list(lines.wrapped(self._question[1], width - 6))[-8:]
        self.query_one("#prompt", Told).tell(shown)

    def on_resize(self) -> None:
        """Lay the question out for the new size."""
        if self.query("#dialog"):
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Hand over what was typed."""
        event.stop()
        self.action_answer()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Hand over what was typed, or give up."""
        event.stop()
        if event.button.id == "confirm":
            self.action_answer()
        else:
            self.action_give_up()

    def action_answer(self) -> None:
        """Return what was typed."""
        self._finish(self.query_one("#secret", Input).value)

    def action_give_up(self) -> None:
        """Return None."""
        self._finish(None)

    def _finish(self, answer: str | None) -> None:
        if self.is_current:
            self.query_one("#secret", Input).clear()
            self.close(answer)
