"""What the measurements print: one table a size to hold, with its limit and the peers of the same run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing that must hold: ``figure`` at most ``most``, both in ``unit``; ``what`` names it in the table."""

    what: str
    figure: float
    most: float
    unit: str

    @property
    def held(self) -> bool:
        """Whether the figure is within its limit."""
        return self.figure <= self.most

    def __str__(self) -> str:
        sign = "ok  " if self.held else "OVER"
        return f"{sign} {self.what:<58}{self.figure:>9.2f} {self.unit:<5} limit {self.most:g} {self.unit}"


@dataclass(frozen=True, slots=True)
class Table:
    """``rows`` are (what, figure, unit) for information: peers, parts and spread."""

    title: str
    limits: Sequence[Limit]
    rows: Sequence[tuple[str, float, str]] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    def check(self) -> None:
        """Print the table, then fail if a limit does not hold."""
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        lines = [f"{self.title}   [load {load} on {os.cpu_count()} CPUs]"]
        lines += [f"  {limit}" for limit in self.limits]
        lines += [f"       {what:<58}{figure:>9.2f} {unit}" for what, figure, unit in self.rows]
        lines += [f"       {note}" for note in self.notes]
        print("\n" + "\n".join(lines), flush=True)
        over = [limit for limit in self.limits if not limit.held]
        assert not over, "; ".join(f"{limit.what}: {limit.figure:.2f} {limit.unit}" for limit in over)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest of ``values`` that ``percent`` of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]
