"""Agent: with 2,000 processes and 8 GPUs at 1 Hz at most 2.4 % of a core, and no more than btop takes at 2 s."""

from __future__ import annotations

from tests.bench.figures import Limit, Table
from tests.bench.peers import BTOP, HTOP, PLAIN, compared
from tests.bench.steady import AGENT, SSHD, Steady

MOST_PERCENT = 2.4
MOST_OF = {BTOP: 100.0, HTOP: 25.0, PLAIN: 10.0}
"""In % of what each peer takes."""


def test_agent_cpu(steady: Steady) -> None:
    ours = steady.cpu[AGENT]
    limits = [Limit("agent, every 1 s, with 8 GPUs", ours, MOST_PERCENT, "%")]
    for title, most in MOST_OF.items():
        if row := compared(steady.cpu, ours, title):
            limits.append(Limit(row[0], row[1], most, row[2]))
    low, high = steady.spread[AGENT]
    rows = [(title, cpu, "%") for title, cpu in steady.cpu.items() if title != AGENT]
    notes = [f"agent by window: {low:.2f} to {high:.2f} %; {SSHD} is the session that encrypts for it", *steady.notes]
    Table(f"CPU of the agent, in % of one core, {steady.processes} processes", limits, rows, notes).check()
