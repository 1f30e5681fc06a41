"""DetailScreen: everything the host tells of one process."""

from __future__ import annotations

import time
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Footer

from console.agent import protocol
from console.agent.protocol import Identity, printable
from console.host import detail_text, lines
from console.host.detail import Detail, detail_from_wire
from console.host.errors import LinkError, RequestError
from console.host.figures import count_text
from console.screens.dialog import Clock, Dialog, DialogLink, Lines, Told, host_name, set_title

DEADLINE_S = 10.0
TICK_S = 1.0


class DetailScreen(Dialog[None]):
    """Shows one process in full; reads it again on demand, never another one that took its pid."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter", "close", "Close", id="detail.close", key_display="esc", tooltip="Back"),
        Binding("c", "copy", "Copy command", id="detail.copy", tooltip="Copy the arguments, quoted for a shell"),
        Binding("R", "read", "Re-read", id="detail.read", tooltip="Ask the host again"),
    ]

    def __init__(self, link: DialogLink, identity: Identity, *, clock: Clock = time.monotonic) -> None:
        super().__init__(clock=clock)
        self._link = link
        self._identity = identity
        self._read_at = 0.0
        self.detail: Detail | None = None
        """What the host told last; None before it answered."""

    def compose(self) -> ComposeResult:
        """Yield the frame and its lines."""
        with Vertical(id="dialog", classes="dialog"):
            yield Told("status")
            yield Lines("body")
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Ask the host."""
        set_title(self, f"Process {self._identity[1]} on {host_name(self._link)}")
        self.query_one("#body", Lines).focus()
        self.appeared()
        self.set_interval(TICK_S, self._tick)
        self.action_read()

    def action_read(self) -> None:
        """Ask the host again."""
        self._say("Reading the process…", lines.DIM)
        self.run_worker(self._read(), group="detail", exclusive=True, exit_on_error=False)

    async def _read(self) -> None:
        try:
            answer = await self._link.request(protocol.DETAIL, deadline_s=DEADLINE_S, process=list(self._identity))
            read = detail_from_wire(answer)
        except (RequestError, LinkError) as error:
            kept = " What is below is what it was." if self.detail else ""
            self._say(f"{printable(str(error)).rstrip('.')}.{kept}", lines.BAD)
            return
        except (KeyError, TypeError, ValueError) as error:
            self._say(f"The host's answer cannot be understood: {printable(str(error))}.", lines.BAD)
            return
        if (read.pid, read.start_ticks) != self._identity[1:]:
            self._say(f"The host answered about another process ({read.pid}); nothing of it is shown.", lines.BAD)
            return
        self.detail, self._read_at = read, self.clock()
        self._say("", lines.PLAIN)

    def _say(self, sentence: str, tone: str) -> None:
        shown = list(lines.wrapped(sentence, self.text_width, tone=tone)) if sentence else []
        status = self.query_one("#status", Told)
        status.display = bool(shown)
        status.tell(shown)
        self._draw(len(shown))

    def _draw(self, above: int) -> None:
        self.query_one("#dialog").styles.width = self.frame_width
        body = self.query_one("#body", Lines)
        if self.detail is not None:
            hello = self._link.state.hello
            body.show(detail_text.detail_lines(self.detail, self.text_width, hello.clk_tck if hello else 100))
        body.limit(self.frame_height - 3 - above)
        if body.can_focus:
            body.focus()

    def _tick(self) -> None:
        if self.detail is not None:
            self.query_one("#dialog").border_subtitle = f"read {self.clock() - self._read_at:.0f} s ago"

    def on_resize(self) -> None:
        """Lay the process out for the new size."""
        if self.query("#dialog"):
            self._draw(1 if self.query_one("#status", Told).display else 0)

    def action_close(self) -> None:
        """Close the view."""
        self.close(None)

    def action_copy(self) -> None:
        """Copy the arguments, quoted for a shell."""
        if self.detail is not None and self.detail.argv:
            self.app.copy_to_clipboard(detail_text.shell_quoted(self.detail))
            note = f"Copied {count_text(len(self.detail.argv), 'argument')}, quoted for a shell."
            if self.detail.argv_masked:
                note += f" {count_text(self.detail.argv_masked, 'value')} masked on the host: replace it before use."
            self.app.notify(note, markup=False)
