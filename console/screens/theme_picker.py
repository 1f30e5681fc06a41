"""ThemePicker: choose a theme while looking at it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Footer, OptionList
from textual.widgets.option_list import Option

from console.agent.protocol import printable
from console.screens.dialog import Dialog, set_title
from console.themes import LoadedTheme


class ThemePicker(Dialog[str | None]):
    """Dismissed with the name of the theme that was chosen, or None; the highlighted one is shown at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape",
            "restore",
            "Back to the old one",
            id="theme.restore",
            tooltip="Close this and take the old theme again",
        ),
    ]
    # Beside the dialogs' own style sheet: the screen below must show the theme as it will be.
    CSS = """
    ThemePicker {
        align: right bottom;
        background: transparent;
    }

    ThemePicker OptionList {
        height: auto;
        max-height: 100%;
        border: none;
        padding: 0;
        background: $surface;
    }
    """
    MAX_WIDTH = 44

    def __init__(self, themes: Mapping[str, LoadedTheme], current: str) -> None:
        super().__init__()
        self._themes = themes
        self._before = current

    def compose(self) -> ComposeResult:
        """Yield the list."""
        with Vertical(id="dialog", classes="dialog"):
            yield OptionList(*(self._option(name) for name in self._themes), id="themes", markup=False, compact=True)
            yield Footer(show_command_palette=False, compact=True)

    def _option(self, name: str) -> Option:
        description = printable(self._themes[name].description)
        return Option(Content.assemble((name, "bold"), "\n  " + description if description else ""), id=name)

    def on_mount(self) -> None:
        """Start at the current theme."""
        set_title(self, "Theme")
        self.query_one("#dialog").styles.width = self.frame_width
        names = list(self._themes)
        themes = self.query_one(OptionList)
        themes.highlighted = names.index(self._before) if self._before in names else 0
        themes.focus()

    def guarded(self, at: float | None = None) -> bool:
        """Return False: a theme does no harm."""
        return False

    @on(OptionList.OptionHighlighted)
    def _preview(self, event: OptionList.OptionHighlighted) -> None:
        if event.option.id:
            self.app.theme = event.option.id

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.close(event.option.id)

    def action_restore(self) -> None:
        """Take the theme from before."""
        self.app.theme = self._before
        self.close(None)
