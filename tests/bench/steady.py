"""The steady state, measured once for all that is said about it: the console on its dashboard, its agent, the peers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import psutil

from console.agent.protocol import command_line
from tests.bench.bench_host import BenchHost
from tests.bench.peers import find_peers, start_peers
from tests.bench.pseudo_terminal import PseudoTerminal

WARM_UP_S = 8.0
WINDOW_S = 20.0
WINDOWS = 3
AGENT, CONSOLE, SSHD = "agent", "console", "sshd"
START_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class Steady:
    """Medians over the windows. ``cpu`` is in % of one core by process; a peer that ended is not in it."""

    cpu: Mapping[str, float]
    spread: Mapping[str, tuple[float, float]]
    """Lowest and highest window."""
    to_console_bytes_per_s: float
    to_host_bytes_per_s: float
    screen_bytes_per_s: float
    processes: int
    notes: tuple[str, ...]


def measure_steady(host: BenchHost) -> Steady:
    """Run everything side by side and return what it took."""
    peers, notes = find_peers()
    terminals = {CONSOLE: PseudoTerminal(host.argv(), host.environment)}
    terminals.update(start_peers(peers, {**host.environment, **host.nvml}))
    try:
        terminals[CONSOLE].seconds_until(first_row(), START_DEADLINE_S)
        time.sleep(WARM_UP_S)
        watched = {title: psutil.Process(terminal.process.pid) for title, terminal in terminals.items()}
        watched[AGENT] = agent_of(host)
        watched[SSHD] = psutil.Process(watched[AGENT].ppid())
        shown = terminals[CONSOLE].text
        assert "H100" in shown and "crowd" in shown, f"the dashboard does not show the GPUs and their owners: {shown}"
        windows = [_window(host, watched, terminals[CONSOLE]) for _ in range(WINDOWS)]
        ended = [title for title in watched if any(title not in window for window in windows)]
    finally:
        for terminal in terminals.values():
            terminal.close()
    assert AGENT not in ended and CONSOLE not in ended, f"ended while it was measured: {ended}"
    notes += [f"{title} ended by itself: {terminals[title].text.strip()[-200:]!r}" for title in ended]
    series = {name: [window[name] for window in windows] for name in windows[0] if name not in ended}
    median = {name: statistics.median(values) for name, values in series.items()}
    traffic = [median.pop(name) for name in ("to_console", "to_host", "screen")]
    spread = {name: (min(series[name]), max(series[name])) for name in median}
    return Steady(median, spread, *traffic, processes=len(psutil.pids()), notes=tuple(notes))


def _window(host: BenchHost, watched: Mapping[str, psutil.Process], console: PseudoTerminal) -> dict[str, float]:
    before, began = _totals(host, watched, console), time.monotonic()
    time.sleep(WINDOW_S)
    after, elapsed = _totals(host, watched, console), time.monotonic() - began
    return {
        name: (after[name] - before[name]) / elapsed * (100.0 if name in watched else 1.0)
        for name in before
        if name in after
    }


def _totals(host: BenchHost, watched: Mapping[str, psutil.Process], console: PseudoTerminal) -> dict[str, float]:
    """Return CPU seconds by process and bytes by direction, up to now."""
    totals: dict[str, float] = {
        "to_console": host.proxy.to_console,
        "to_host": host.proxy.to_host,
        "screen": console.written,
    }
    for title, process in watched.items():
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                times = process.cpu_times()
                totals[title] = times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return totals


def agent_of(host: BenchHost) -> psutil.Process:
    """Return the one agent that runs behind the host's sshd."""
    children = [child for session in host.sshd.sessions() for child in session.children()]
    agents = [child for child in children if "eagle3-console agent" in " ".join(child.cmdline())]
    assert len(agents) == 1, f"{len(agents)} agents run"
    return agents[0]


def first_row() -> str:
    """Return what the screen shows of process 1, which is at the top of every tree."""
    process = psutil.Process(1)
    return command_line(process.cmdline(), process.name())[:20]
