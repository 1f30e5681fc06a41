"""Dialog: what every modal screen shares: a frame that fits the terminal, lines from the host, guarded keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from console.agent.protocol import printable
from console.host import lines
from console.host.action_run import ReconnectingConversation
from console.host.lines import Line, Piece
from console.host.link import UP
from console.host.state import HostState

Result = TypeVar("Result")

GUARD_S = 0.4
"""After something to confirm has appeared, an ``enter`` is taken for typed ahead for this long, in seconds."""

_STYLES = {
    lines.DIM: "$foreground-muted",
    lines.STRONG: "bold",
    lines.HEAD: "bold $foreground-muted",
    lines.GOOD: "$text-success",
    lines.WARN: "$text-warning",
    lines.BAD: "bold $text-error",
}

Clock = Callable[[], float]
"""Returns monotonic seconds."""


class LinkStatus(Protocol):
    """The part of a link's status that dialogs read."""

    @property
    def phase(self) -> str:
        """``up`` while requests reach the host."""
        ...


class DialogLink(ReconnectingConversation, Protocol):
    """The part of a link that dialogs use; :class:`console.host.link.HostLink` is one."""

    @property
    def state(self) -> HostState:
        """The host's frozen state."""
        ...

    @property
    def status(self) -> LinkStatus:
        """How the link is."""
        ...

    def data_age_s(self) -> float | None:
        """Return seconds since the host last reported its processes, None when it never did."""
        ...


def host_name(link: DialogLink) -> str:
    """Return what the operator calls the host: its configured name, else the name it gives itself."""
    name = getattr(link, "name", "") or (link.state.hello.hostname if link.state.hello else "")
    return printable(str(name)) or "the host"


def is_up(link: DialogLink) -> bool:
    """Return True while requests reach the host."""
    return link.status.phase == UP


def content(shown: Sequence[Line]) -> Content:
    """Return lines as content; nothing in them is ever read as markup."""
    pieces: list[Content | str | tuple[str, str]] = []
    for index, each in enumerate(shown):
        if index:
            pieces.append("\n")
        pieces.extend(styled(piece) for piece in each)
    return Content.assemble(*pieces)


def styled(piece: Piece) -> tuple[str, str]:
    """Return a piece with the theme's style for its tone."""
    text, tone = piece
    return text, _STYLES.get(tone, "")


def set_title(dialog: Dialog[Any], title: str) -> None:
    """Put ``title``, which may hold anything, on the frame of ``dialog``."""
    dialog.query_one("#dialog").border_title = Content(printable(title)).markup


class Told(Static):
    """A few lines of text; the same lines again cost nothing."""

    def __init__(self, name: str = "") -> None:
        super().__init__("", id=name or None, classes="line", markup=False)
        self._told: list[Line] = []

    def tell(self, told: Sequence[Line]) -> None:
        """Replace the lines."""
        if self._told != list(told):
            self._told = list(told)
            self.update(content(told))


class Lines(VerticalScroll):
    """Lines that scroll, as high as they are up to a limit; takes the focus only when there is something to scroll."""

    can_focus = False

    def __init__(self, name: str) -> None:
        super().__init__(id=name, classes="lines")
        self._text = Told()
        self.count = 0
        """Lines shown."""

    def compose(self) -> ComposeResult:
        """Yield the text."""
        yield self._text

    def show(self, shown: Sequence[Line]) -> None:
        """Replace the lines; the place scrolled to stays."""
        self.count = len(shown)
        self.display = bool(shown)
        self._text.tell(shown)

    def limit(self, rows: int) -> None:
        """Show at most ``rows`` at once."""
        rows = max(rows, 1)
        self.styles.height = min(self.count, rows)
        self.can_focus = self.count > rows


class Dialog(ModalScreen[Result], Generic[Result]):
    """A modal screen that fits the terminal, whatever its size."""

    CSS_PATH = "dialog.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-short"), (32, "-tall")]  # noqa: RUF012
    MAX_WIDTH = 150

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        super().__init__()
        self.clock = clock
        self._appeared: float | None = None

    @property
    def text_width(self) -> int:
        """Cells for a line inside the frame, its padding and a scroll bar."""
        return self.frame_width - 6

    @property
    def frame_width(self) -> int:
        """Cells from edge to edge of the frame."""
        width = self.app.size.width
        return min(width if width < 100 else width - 6, self.MAX_WIDTH)

    @property
    def frame_height(self) -> int:
        """Most rows the frame may take."""
        height = self.app.size.height
        return height if height < 32 else height - 4

    def appeared(self) -> None:
        """Note that something to confirm is on the screen from now on: the guard against typed-ahead keys starts."""
        self._appeared = self.clock()

    def guarded(self, at: float | None = None) -> bool:
        """Return True while a confirmation at ``at`` (now, when None) is too early to be meant."""
        moment = self.clock() if at is None else at
        return self._appeared is None or moment - self._appeared < GUARD_S

    def close(self, result: Result) -> None:
        """Dismiss this screen once; a second key that was on its way never closes the screen below."""
        if self.is_current:
            self.dismiss(result)

    def key_of(self, binding_id: str) -> str:
        """Return the key of a binding as the operator has it now; "" when it is not offered."""
        shown = (b.binding for b in self.active_bindings.values() if b.binding.id == binding_id)
        return next((self.app.get_key_display(binding) for binding in shown), "")

    def on_key(self, event: events.Key) -> None:
        """Drop an ``enter`` that was typed before the operator can have read what it would confirm."""
        if event.key == "enter":
            typed_ago = max(0.0, time.monotonic() - event.time)
            if self.guarded(self.clock() - typed_ago):
                event.stop()
                event.prevent_default()
