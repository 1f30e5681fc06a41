"""HelpScreen: every key as it is now, generated from the bindings themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Footer

from console.host.lines import DIM, HEAD, PLAIN, STRONG, Line, cells, pad, wrap
from console.keymap import KeyLine, KeySection
from console.screens.dialog import Dialog, Lines, set_title

KeyDisplay = Callable[[str], str]


class HelpScreen(Dialog[None]):
    """All keys by place; those of the place the operator came from first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,enter", "close", "Close", id="help.close", key_display="esc", tooltip="Back"),
        Binding("up", "list('up')", "Up", show=False, id="help.up", tooltip="Scroll up"),
        Binding("down", "list('down')", "Down", show=False, id="help.down", tooltip="Scroll down"),
        Binding("pageup", "list('page_up')", "Page up", show=False, id="help.page_up", tooltip="Scroll up by a page"),
        Binding(
            "pagedown",
            "list('page_down')",
            "Page down",
            show=False,
            id="help.page_down",
            tooltip="Scroll down by a page",
        ),
    ]
    MAX_WIDTH = 100

    def __init__(self, sections: Sequence[KeySection], display: KeyDisplay) -> None:
        super().__init__()
        self._sections = sections
        self._display = display

    def compose(self) -> ComposeResult:
        """Yield the frame and its lines."""
        with Vertical(id="dialog", classes="dialog"):
            yield Lines("body")
            yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Show the keys."""
        set_title(self, "Keys")
        self._lay_out()

    def on_resize(self) -> None:
        """Lay out for another size."""
        self._lay_out()

    def guarded(self, at: float | None = None) -> bool:
        """Return False: nothing here needs confirming."""
        return False

    def _lay_out(self) -> None:
        self.query_one("#dialog").styles.width = self.frame_width
        body = self.query_one(Lines)
        body.show(help_lines(self._sections, self._display, self.text_width))
        body.limit(self.frame_height - 4)

    def action_close(self) -> None:
        """Close the help."""
        self.close(None)

    def action_list(self, how: str) -> None:
        """Scroll."""
        body = self.query_one(Lines)
        {
            "up": body.scroll_up,
            "down": body.scroll_down,
            "page_up": body.scroll_page_up,
            "page_down": body.scroll_page_down,
        }[how](animate=False)


def help_lines(sections: Sequence[KeySection], display: KeyDisplay, width: int) -> list[Line]:
    """Return the keys as lines of at most ``width`` cells: keys, what they do, and the binding id for the keymap."""
    out: list[Line] = []
    shown = [(section, [(_keys_text(line, display), line) for line in section.lines]) for section in sections]
    key_width = min(18, max((cells(keys) for _, rows in shown for keys, _ in rows), default=0))
    id_width = max((len(line.id) for _, rows in shown for _, line in rows), default=0) if width >= 76 else 0
    for section, rows in shown:
        if out:
            out.append(())
        out.append(((section.title, HEAD),))
        for keys, line in rows:
            room = max(10, width - key_width - 4 - (id_width + 2 if id_width else 0))
            for index, part in enumerate(wrap(line.tooltip, room)):
                first = index == 0
                tail = pad(part, room) + "  " + line.id if id_width and first else part
                head = pad(keys, key_width, right=True) if first else " " * key_width
                out.append(
                    (
                        (" " + head + "  ", STRONG),
                        (tail[: len(tail) - len(line.id)] if id_width and first else tail, PLAIN),
                        (line.id if id_width and first else "", DIM),
                    )
                )
    return out


def _keys_text(line: KeyLine, display: KeyDisplay) -> str:
    return " ".join(display(key) for key in line.keys)
