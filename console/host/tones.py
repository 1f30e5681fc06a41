"""Tones that only the dashboard's lines use, beside those of :mod:`console.host.lines`."""

from __future__ import annotations

BAR = "bar"
BAR_WARM = "bar-warm"
TRACK = "track"
SPARK = "spark"
PAUSED = "paused"
GUIDE = "guide"
ACCENT = "accent"
FOUND = "found"

EXTRA_TONES = (BAR, BAR_WARM, TRACK, SPARK, PAUSED, GUIDE, ACCENT, FOUND)
