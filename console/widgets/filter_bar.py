"""FilterBar: where the text that narrows the tree is typed."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input


class FilterBar(Input):
    """An input above the footer. ``enter`` keeps the filter, ``escape`` drops it; both give the focus to the tree."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter,down,tab",
            "keep",
            "Keep filter",
            id="filter.keep",
            key_display="⏎",
            tooltip="Back to the tree, filtered",
        ),
        Binding("escape", "drop", "Drop filter", id="filter.drop", tooltip="Show everything again"),
    ]

    class Closed(Message):
        """The operator is done; ``kept`` says whether the text still counts."""

        def __init__(self, kept: bool) -> None:
            super().__init__()
            self.kept = kept

    def __init__(self, *, widget_id: str | None = None) -> None:
        super().__init__(placeholder="part of a command line, a user or a pid", compact=True, id=widget_id)

    def action_keep(self) -> None:
        """Keep the text."""
        self.post_message(self.Closed(kept=True))

    def action_drop(self) -> None:
        """Empty it."""
        self.value = ""
        self.post_message(self.Closed(kept=False))
