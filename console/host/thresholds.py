"""From which figure on the dashboard warns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits of the dashboard; ``settings.ThresholdSettings`` has the same fields and their defaults' reasons."""

    temperature_warn_c: float = 80.0
    temperature_danger_c: float = 88.0
    memory_warn_percent: float = 92.0
    disk_free_warn_percent: float = 10.0
    stale_after_s: float = 3.0
