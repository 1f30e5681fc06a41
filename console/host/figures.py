"""Sizes, ages and times as an operator reads them."""

from __future__ import annotations

import math
import time

NOT_AVAILABLE = "n/a"
NOTHING = "—"

_UNITS = ("B", "K", "M", "G", "T", "P")


def size_text(size_bytes: int | None, missing: str = NOTHING) -> str:
    """Return a size in powers of 1024 with three figures at most: ``593 G``, ``1.2 G``, ``88 M``, ``0 B``."""
    if size_bytes is None:
        return missing
    value, unit = float(size_bytes), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}" if unit and value < 99.95 else f"{value:.0f} {_UNITS[unit]}"


def age_text(age_s: float | None) -> str:
    """Return a duration with its two largest units: ``1d 02h``, ``3h 12m``, ``12m 05s``, ``45s``."""
    if age_s is None or not math.isfinite(age_s):
        return NOTHING
    seconds = max(0, int(age_s))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days}d {hours % 24:02d}h"
    if hours:
        return f"{hours}h {minutes % 60:02d}m"
    return f"{minutes}m {seconds % 60:02d}s" if minutes else f"{seconds}s"


def took_text(elapsed_ms: float) -> str:
    """Return how long something took: ``8 ms``, ``1.4 s``, ``2m 05s``."""
    if elapsed_ms < 999.5:
        return f"{elapsed_ms:.0f} ms"
    return f"{elapsed_ms / 1000:.1f} s" if elapsed_ms < 60_000 else age_text(elapsed_ms / 1000)


def moment_text(wall_s: float | None) -> str:
    """Return a wall-clock moment in the operator's own time zone: ``2025-11-30 22:41:07``."""
    if wall_s is None:
        return NOTHING
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))
    except (ValueError, OverflowError, OSError):
        return NOTHING


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Return ``1 process``, ``3 processes``: a count with its noun."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {plural or noun + ('es' if noun.endswith('s') else 's')}"
