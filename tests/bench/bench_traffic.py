"""Link: at most 20 kB/s in the steady state, both directions, as encrypted."""

from __future__ import annotations

import subprocess

from tests.bench.figures import Limit, Table
from tests.bench.steady import Steady

MOST_KB_PER_S = 20.0
MOST_OF_FULL = 10.0
"""In % of what the full list would take each second: what a tool that sends `ps` over and over pays."""


def test_traffic(steady: Steady) -> None:
    total = (steady.to_console_bytes_per_s + steady.to_host_bytes_per_s) / 1000.0
    full = _ps_listing_bytes() / 1000.0
    limits = [
        Limit("both directions, as encrypted", total, MOST_KB_PER_S, "kB/s"),
        Limit("… of the whole list of `ps -ef` every 1 s", 100.0 * total / full, MOST_OF_FULL, "%"),
    ]
    rows = [
        ("to the console", steady.to_console_bytes_per_s / 1000.0, "kB/s"),
        ("to the host", steady.to_host_bytes_per_s / 1000.0, "kB/s"),
    ]
    Table("Steady traffic, 2,000 processes and 8 GPUs at 1 Hz", limits, rows).check()


def _ps_listing_bytes() -> int:
    return len(subprocess.run(["ps", "-ef", "ww"], check=True, capture_output=True).stdout)
