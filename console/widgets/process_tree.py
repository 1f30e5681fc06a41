"""ProcessTree: the processes of a host as a tree of which only the visible lines are drawn."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.host.layout_figures import process_columns
from console.host.lines import DIM, STRONG, Line
from console.host.process_line import ghost_line, heading_line, process_line
from console.host.state import HostState
from console.host.tree import SORTS, TreeRow, TreeView, build_rows
from console.widgets.lines_view import TONE_CLASSES, TONE_CSS, Toned, changed_regions
from console.widgets.tree_cursor import TreeCursor


class ProcessTree(ScrollView, Toned, can_focus=True):
    """A table with a tree in its last column. Line 0 is the heading and does not scroll."""

    # Textual inherits component classes and CSS along the first base only.
    COMPONENT_CLASSES: ClassVar[set[str]] = {*TONE_CLASSES, "process-tree--cursor", "process-tree--heading"}
    DEFAULT_CSS = f"""
    ProcessTree {{
        {TONE_CSS}
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        .process-tree--heading {{ background: $heading-background; }}
        .process-tree--cursor {{
            color: $block-cursor-blurred-foreground;
            background: $block-cursor-blurred-background;
        }}
        &:focus .process-tree--cursor {{
            color: $block-cursor-foreground;
            background: $block-cursor-background;
            text-style: bold;
        }}
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "Up", show=False, id="tree.up", tooltip="Go to the process above"),
        Binding("down", "move(1)", "Down", show=False, id="tree.down", tooltip="Go to the process below"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="tree.page_up", tooltip="Go up by a screenful"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="tree.page_down", tooltip="Go down by a screenful"),
        Binding("home", "edge(-1)", "Top", show=False, id="tree.top", tooltip="Go to the first process"),
        Binding("end", "edge(1)", "Bottom", show=False, id="tree.bottom", tooltip="Go to the last process"),
        Binding(
            "left", "fold", "Fold", show=False, id="tree.fold", tooltip="Fold this process; again: go to its parent"
        ),
        Binding(
            "right",
            "unfold",
            "Unfold",
            show=False,
            id="tree.unfold",
            tooltip="Unfold this process, or go to its first child",
        ),
        Binding(
            "space", "toggle_fold", "Fold/unfold", show=False, id="tree.toggle", tooltip="Fold or unfold this process"
        ),
    ]

    view: var[TreeView] = var(TreeView, init=False)

    class ViewChanged(Message):
        """The operator changed what the tree shows, or the number of rows has changed."""

    def __init__(self, *, widget_id: str | None = None) -> None:
        super().__init__(id=widget_id)
        self.cursor = TreeCursor()
        self._state = HostState()
        self._drawn: tuple[Line, ...] = ()
        self.empty_text = "No process list yet."
        """Shown when there is no row."""

    def show_state(self, state: HostState) -> None:
        """Show ``state``; the cursor stays on its process, the lines that did not change are not painted again."""
        self._state = state
        self._rebuild(replace(self.view, pinned=self.cursor.identity))

    def watch_view(self, view: TreeView) -> None:
        """Rebuild the rows for another choice of the operator."""
        self._rebuild(view)
        self.cursor.prefer_match()
        self._draw()
        self._reveal()

    @property
    def matches(self) -> int:
        """Number of rows that match, rows shown for their descendants not counted."""
        return sum(not row.context for row in self.cursor.rows)

    def cycle_sort(self) -> None:
        """Sort by the next figure."""
        self.view = replace(self.view, sort=SORTS[(SORTS.index(self.view.sort) + 1) % len(SORTS)])

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        self._go(self.cursor.index + lines)

    def action_page(self, direction: int) -> None:
        """Move the cursor by a screenful."""
        self._go(self.cursor.index + direction * max(1, self._body_height - 1))

    def action_edge(self, direction: int) -> None:
        """Go to the first or the last row."""
        self._go(0 if direction < 0 else self.cursor.height - 1)

    def action_fold(self) -> None:
        """Fold the row, or go to its parent when there is nothing to fold."""
        row = self.cursor.selected
        if row and row.has_children and not row.folded:
            self._set_folded(row, True)
        elif (parent := self.cursor.parent_index()) is not None:
            self._go(parent)

    def action_unfold(self) -> None:
        """Unfold the row, or go to its first child when it is not folded."""
        row = self.cursor.selected
        if row and row.folded:
            self._set_folded(row, False)
        elif row and row.has_children:
            self._go(self.cursor.index + 1)

    def action_toggle_fold(self) -> None:
        """Fold an unfolded row, unfold a folded one."""
        row = self.cursor.selected
        if row and row.has_children:
            self._set_folded(row, not row.folded)

    def _set_folded(self, row: TreeRow, folded: bool) -> None:
        ids = self.view.folded | {row.identity} if folded else self.view.folded - {row.identity}
        self.view = replace(self.view, folded=ids)

    def _go(self, index: int) -> None:
        had_ghost = self.cursor.ghost is not None
        self.cursor.move_to(index)
        if had_ghost and self.cursor.ghost is None:
            self._resize()
        self._reveal()
        self._draw()

    def _rebuild(self, view: TreeView) -> None:
        followed = self._cursor_visible
        self.cursor.update(build_rows(self._state, view), self._state)
        self._resize()
        if followed:
            self._reveal()
        self._draw()
        self.post_message(self.ViewChanged())

    @property
    def _body_height(self) -> int:
        return max(1, self.size.height - 1)

    @property
    def _cursor_visible(self) -> bool:
        return self.scroll_offset.y <= self.cursor.index < self.scroll_offset.y + self._body_height

    def _resize(self) -> None:
        size = Size(0, self.cursor.height + 1)
        if size != self.virtual_size:
            self.virtual_size = size

    def _reveal(self) -> None:
        """Scroll by the least that shows the cursor."""
        top = self.scroll_offset.y
        if self.cursor.index < top:
            self.scroll_to(y=self.cursor.index, animate=False, force=True)
        elif self.cursor.index >= top + self._body_height:
            self.scroll_to(y=self.cursor.index - self._body_height + 1, animate=False, force=True)

    def _visible_lines(self) -> tuple[Line, ...]:
        width = max(1, self.size.width - 1)
        columns = process_columns(width)
        state, cursor, found = self._state, self.cursor, self.view.filter.strip()
        out: list[Line] = [heading_line(columns, self.view.sort)]
        for index in range(self.scroll_offset.y, self.scroll_offset.y + self._body_height):
            row = cursor.line(index)
            if row is not None:
                out.append((*process_line(row, state, columns, width, found=found), self._mark(index)))
            elif cursor.ghost is not None and index == cursor.index:
                out.append((*ghost_line(cursor.ghost, columns, width), self._mark(index)))
            else:
                out.append(())
        if not cursor.height and len(out) > 1:
            out[1] = ((f" {self.empty_text}", DIM),)
        return tuple(out)

    def _mark(self, index: int) -> tuple[str, str]:
        # An empty piece: it draws nothing, and makes the line differ when the cursor comes or goes.
        return ("", STRONG if index == self.cursor.index else DIM)

    def _draw(self) -> None:
        if not self.is_mounted or not self.size:
            return
        old, self._drawn = self._drawn, self._visible_lines()
        if len(old) != len(self._drawn):
            self.refresh()
        elif old != self._drawn:
            self.refresh(*changed_regions(old, self._drawn, self.size.width))

    def render_line(self, y: int) -> Strip:
        """Return line ``y`` of the screen."""
        width, base = self.size.width, self.rich_style
        if y >= len(self._drawn):
            return Strip.blank(width, base)
        if y == 0:
            return self.strip_of(self._drawn[0], width, self._component("process-tree--heading"))
        if y - 1 + self.scroll_offset.y == self.cursor.index and self.cursor.height:
            return self.strip_of(self._drawn[y], width, self._component("process-tree--cursor"), plain=True)
        return self.strip_of(self._drawn[y], width, base)

    def _component(self, name: str) -> Style:
        return self.get_component_rich_style(name)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the lines that have come into sight."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self._drawn = self._visible_lines()

    def on_resize(self, event: events.Resize) -> None:
        """Lay the columns out for another width."""
        self._drawn = ()
        self._reveal()
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the row that was clicked; a click on the heading changes nothing."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y > 0:
            index = offset.y - 1 + self.scroll_offset.y
            if index < self.cursor.height:
                self._go(index)
