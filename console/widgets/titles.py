"""Titles of panels from toned pieces; text from the host is never read as markup."""

from __future__ import annotations

from textual.content import Content

from console.host import lines, tones
from console.host.lines import Line

_STYLES = {
    lines.DIM: "$muted",
    lines.STRONG: "bold $foreground",
    lines.PLAIN: "$foreground",
    lines.WARN: "bold $caution",
    lines.BAD: "bold $danger",
    tones.ACCENT: "$accent-text",
}


def titled(line: Line) -> Content:
    """Return ``line`` as the title of a border."""
    return Content.assemble(*((text, _STYLES.get(tone, "")) for text, tone in line))
