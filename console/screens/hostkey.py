"""HostKeyScreen: trust a host's key on first contact, or not."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Footer

from console.agent.protocol import printable
from console.host import lines
from console.host.lines import Line
from console.host.prompts import HostKeyQuestion
from console.screens.dialog import Clock, Dialog, Lines, set_title

_KEY_FILES = {"ssh-ed25519": "ed25519", "ssh-rsa": "rsa", "ssh-dss": "dsa"}


def key_file(algorithm: str) -> str:
    """Return where OpenSSH keeps the public host key of ``algorithm``."""
    short = "ecdsa" if algorithm.startswith("ecdsa") else _KEY_FILES.get(algorithm, "ed25519")
    return f"/etc/ssh/ssh_host_{short}_key.pub"


def question_lines(question: HostKeyQuestion, width: int) -> list[Line]:
    """Return the facts to compare, and how to compare them."""
    where = f"{printable(question.host)} port {question.port}"
    facts = (
        ("Host", where, lines.STRONG),
        ("Key type", printable(question.algorithm), lines.PLAIN),
        ("Fingerprint", printable(question.fingerprint), lines.STRONG),
        ("Stored in", printable(question.store_path), lines.PLAIN),
    )
    shown: list[Line] = list(
        lines.wrapped("First contact: no known_hosts file holds a key of this host.", width, tone=lines.WARN)
    )
    shown.append(lines.line(""))
    for name, value, tone in facts:
        parts = lines.wrap(value, width - 13)
        shown.extend(
            (((name if index == 0 else "").ljust(13), lines.DIM), (part, tone)) for index, part in enumerate(parts)
        )
    command = f"ssh-keygen -lf {key_file(question.algorithm)}"
    shown.append(lines.line(""))
    shown.extend(lines.wrapped("Trust it only if the host's own console prints the same fingerprint for:", width))
    shown.extend(lines.wrapped(command, width, tone=lines.STRONG, first="  "))
    return shown


class HostKeyScreen(Dialog[bool]):
    """Returns True to trust and store the key, False otherwise; the focus is on No."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", "Do not connect", id="hostkey.refuse", tooltip="The key is not trusted"),
        Binding(
            "left", "app.focus_previous", "Left", show=False, id="hostkey.left", tooltip="To the button on the left"
        ),
        Binding(
            "right", "app.focus_next", "Right", show=False, id="hostkey.right", tooltip="To the button on the right"
        ),
    ]

    def __init__(self, question: HostKeyQuestion, *, clock: Clock = time.monotonic) -> None:
        super().__init__(clock=clock)
        self._question = question

    def compose(self) -> ComposeResult:
        """Yield the facts and the two buttons."""
        with Vertical(id="dialog", classes="dialog -warning"):
            yield Lines("facts")
            with Horizontal(classes="buttons"):
                yield Button("Do not connect", id="cancel")
                yield Button("Trust and store", id="confirm", variant="warning")
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show the question with the focus on No."""
        set_title(self, "Unknown host key")
        self.query_one("#cancel", Button).focus()
        self._draw()
        self.appeared()

    def _draw(self) -> None:
        self.query_one("#dialog").styles.width = min(self.frame_width, 100)
        facts = self.query_one("#facts", Lines)
        facts.show(question_lines(self._question, min(self.text_width, 94)))
        facts.limit(self.frame_height - 3 - (1 if self.app.size.height < 32 else 4))

    def on_resize(self) -> None:
        """Lay the question out for the new size."""
        if self.query("#dialog"):
            self._draw()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer."""
        event.stop()
        if event.button.id == "cancel":
            self.close(False)
        elif not self.guarded():
            self.close(True)

    def action_refuse(self) -> None:
        """Answer no."""
        self.close(False)
