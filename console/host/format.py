"""Figures as pictures and pairs: bars, sparklines, ``used/total``, rates. Sizes and ages alone are in ``figures``."""

from __future__ import annotations

import math
from collections.abc import Sequence

from console.host.figures import NOT_AVAILABLE

_LEVELS = "▁▂▃▄▅▆▇"
"""Without the full block: the line above must stay apart."""
_UNITS = ("B", "K", "M", "G", "T", "P")


def fraction(used: float | None, total: float | None) -> float | None:
    """Return used / total in 0..1, or None when either is unknown or the total is 0."""
    if used is None or total is None or total <= 0:
        return None
    return min(1.0, max(0.0, used / total))


def bar(filled: float | None, width: int) -> tuple[str, str]:
    """Return ``(full, empty)``: two strings of ``width`` cells together, in halves of a cell.

    Anything above 0 shows at least one half, so that "a little" never reads as "nothing"; only a full one fills the
    last half. None is all empty.
    """
    if width <= 0:
        return ("", "")
    if filled is None or not math.isfinite(filled) or filled <= 0:
        return ("", "━" * width)
    filled = min(1.0, filled)
    most = width * 2 - (filled < 1)
    halves = min(most, max(1, round(filled * width * 2)))
    whole, rest = divmod(halves, 2)
    full = "━" * whole + "╸" * rest
    return (full, "━" * (width - len(full)))


def sparkline(
    values: Sequence[float | None], width: int, *, count: int | None = None, capacity: int = 60, top: float = 100.0
) -> str:
    """Return the latest ``values`` as ``width`` cells, newest at the right; an unknown value is a blank.

    Where ``capacity`` values have fewer cells, every cell shows the highest of its share: a short peak is never lost.
    ``count`` is how many values there have ever been; with it the shares have fixed borders and do not flicker as the
    history slides.
    """
    if width <= 0 or not values:
        return " " * max(0, width)
    share = max(1, math.ceil(capacity / width))
    total = len(values) if count is None else count
    cells: dict[int, float | None] = {}
    for index, value in enumerate(values, start=total - len(values)):
        cell = index // share
        known = cells.get(cell)
        cells[cell] = known if value is None else max(value, known if known is not None else value)
    levels = [" " if value is None else _level(value, top) for _, value in sorted(cells.items())]
    return "".join(levels[-width:]).rjust(width)


def _level(value: float, top: float) -> str:
    part = min(1.0, max(0.0, value / top)) if top > 0 else 0.0
    return _LEVELS[min(len(_LEVELS) - 1, int(part * len(_LEVELS)))]


def pair_text(used_bytes: int | None, total_bytes: int | None) -> str:
    """Return ``74.2/95.6 G`` or ``412/1024 G``: both in the unit in which the total has two to four digits."""
    if total_bytes is None:
        return NOT_AVAILABLE
    value, unit = float(total_bytes), 0
    while value >= 2000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    digits = 1 if unit and value < 100 else 0
    used = "?" if used_bytes is None else f"{used_bytes / 1024**unit:.{digits}f}"
    return f"{used}/{value:.{digits}f} {_UNITS[unit]}"


def percent_text(percent: float | None) -> str:
    """Return ``97%``, or ``n/a``."""
    return NOT_AVAILABLE if percent is None else f"{percent:.0f}%"


def rate_text(bytes_per_s: float | None) -> str:
    """Return a transfer rate in powers of 1000, as networks are sold: ``18.4 MB/s``, ``0 B/s``."""
    if bytes_per_s is None:
        return NOT_AVAILABLE
    value = float(bytes_per_s)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.0f} {unit}/s" if unit == "B" or value >= 99.95 else f"{value:.1f} {unit}/s"
        value /= 1000
    return f"{value:.1f} TB/s"


def watts_text(power_w: float | None, limit_w: float | None) -> str:
    """Return ``412/600 W``, or ``n/a`` when the driver does not tell the power."""
    if power_w is None:
        return NOT_AVAILABLE
    return f"{power_w:.0f} W" if limit_w is None else f"{power_w:.0f}/{limit_w:.0f} W"
