"""Console: the dashboard at 160 × 50 takes at most 10 % of a core while 2,000 processes are sampled at 1 Hz."""

from __future__ import annotations

from tests.bench.figures import Limit, Table
from tests.bench.peers import BTOP, HTOP, PLAIN, compared
from tests.bench.steady import CONSOLE, Steady

MOST_PERCENT = 10.0
MOST_OF_PLAIN = 50.0
"""In % of what a plain loop over psutil takes without showing anything."""


def test_console_cpu(steady: Steady) -> None:
    ours = steady.cpu[CONSOLE]
    limits = [Limit("console on its dashboard", ours, MOST_PERCENT, "%")]
    if row := compared(steady.cpu, ours, PLAIN):
        limits.append(Limit(row[0], row[1], MOST_OF_PLAIN, row[2]))
    low, high = steady.spread[CONSOLE]
    rows = [row for title in (HTOP, BTOP) if (row := compared(steady.cpu, ours, title))]
    rows.append(("written to the terminal", steady.screen_bytes_per_s / 1000.0, "kB/s"))
    notes = [f"console by window: {low:.2f} to {high:.2f} %"]
    Table("CPU of the console, in % of one core", limits, rows, notes).check()
