"""LinesView: a widget that draws ready-made lines of toned text, and repaints only the ones that changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from console.host.lines import TONES, Line
from console.host.tones import EXTRA_TONES

TONE_CLASSES = frozenset(f"tone--{tone}" for tone in (*TONES, *EXTRA_TONES) if tone)

TONE_CSS = """
    .tone--dim { color: $muted; }
    .tone--strong { text-style: bold; }
    .tone--head { color: $accent-text; text-style: bold; }
    .tone--good { color: $good; }
    .tone--warn { color: $caution; }
    .tone--bad { color: $danger; text-style: bold; }
    .tone--bar { color: $gpu-bar; }
    .tone--bar-warm { color: $gpu-bar-full; }
    .tone--track { color: $gpu-track; }
    .tone--spark { color: $gpu-spark; }
    .tone--paused { color: $paused; text-style: bold; }
    .tone--guide { color: $guide; }
    .tone--accent { color: $accent-text; }
    .tone--found { color: $found; text-style: bold underline; }
"""


class Toned(Widget):
    """A widget whose component classes give every tone its colours; a base for the line-drawing widgets."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(TONE_CLASSES)
    DEFAULT_CSS = f"""
    Toned {{
        {TONE_CSS}
    }}
    """

    # Widget.refresh() empties Textual's own cache of styles, which would be built anew for every repaint.
    _tone_styles: dict[str, Style] | None = None

    def notify_style_update(self) -> None:
        """Forget the styles: the theme or a class has changed."""
        self._tone_styles = None
        super().notify_style_update()

    def tone_style(self, tone: str) -> Style:
        """Return what ``tone`` adds to the style of the widget."""
        if self._tone_styles is None:
            self._tone_styles = {"": Style()}
        style = self._tone_styles.get(tone)
        if style is None:
            style = self._tone_styles[tone] = self.get_component_rich_style(f"tone--{tone}", partial=True)
        return style

    def strip_of(self, line: Line, width: int, base: Style, *, plain: bool = False) -> Strip:
        """Return ``line`` as a strip of exactly ``width`` cells over ``base``; ``plain`` leaves the tones out."""
        segments = [Segment(text, base if plain else base + self.tone_style(tone)) for text, tone in line if text]
        return Strip(segments).adjust_cell_length(width, base)


class LinesView(Toned):
    """Draws lines set with :meth:`show_lines`; as high as their number. Text is data: no markup is interpreted."""

    DEFAULT_CSS = """
    LinesView {
        height: auto;
        width: 1fr;
    }
    """

    def __init__(self, *, widget_id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=widget_id, classes=classes)
        self._lines: tuple[Line, ...] = ()

    @property
    def text(self) -> str:
        """What is shown, without its colours."""
        return "\n".join("".join(piece for piece, _ in line) for line in self._lines)

    def show_lines(self, lines: Iterable[Line]) -> None:
        """Show ``lines``; only those that differ from what is there are painted again."""
        new = tuple(lines)
        old, self._lines = self._lines, new
        if len(new) != len(old):
            self.refresh(layout=True)
        elif new != old:
            self.refresh(*changed_regions(old, new, self.size.width))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        """Return one line as a strip."""
        style = self.rich_style
        if y >= len(self._lines):
            return Strip.blank(self.size.width, style)
        return self.strip_of(self._lines[y], self.size.width, style)


def changed_regions(old: Sequence[object], new: Sequence[object], width: int) -> list[Region]:
    """Return the rows in which two equally long lists of lines differ, as regions of the content."""
    return [Region(0, y, width, 1) for y, (before, after) in enumerate(zip(old, new, strict=True)) if before != after]
