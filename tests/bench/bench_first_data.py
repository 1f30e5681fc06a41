"""Start: from the command to the first process on the screen at most 1.5 s, over SSH to a host with 2,000 processes."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.bench.bench_host import BenchHost
from tests.bench.figures import Limit, Table
from tests.bench.pseudo_terminal import PseudoTerminal
from tests.bench.steady import first_row

MOST_S = 1.5
MOST_OF_BARE = 400.0
"""In % of what Textual alone takes to show one word, here and now."""
WARM_STARTS = 5
DEADLINE_S = 60.0
MARKS = Path(__file__).with_name("start_marks.py")
STEPS = (
    "python runs",
    "imported",
    "screen up, bundle made",
    "logged in",
    "hello",
    "first rows arrived",
    "whole list arrived",
)

BARE_APP = """
from textual.app import App
from textual.widgets import Label

class Bare(App):
    def compose(self):
        yield Label("nothing-but-this")

Bare().run()
"""


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds until the marker was on the screen, and the CPU seconds of the program by then."""

    wall_s: float
    cpu_s: float


def _started(host: BenchHost, argv: list[str], marker: str) -> Start:
    terminal = PseudoTerminal(argv, host.environment)
    try:
        wall_s = terminal.seconds_until(marker, DEADLINE_S)
        times = psutil.Process(terminal.process.pid).cpu_times()
        return Start(wall_s, times.user + times.system)
    finally:
        terminal.close()


def _steps(host: BenchHost) -> list[tuple[str, float, str]]:
    """Return how long each step took in one more start, and what was left until it was on the screen."""
    path = host.home / "marks.json"
    terminal = PseudoTerminal([sys.executable, str(MARKS), str(path), "--host", "gpu1"], host.environment)
    try:
        shown_s = terminal.seconds_until(first_row(), DEADLINE_S)
        deadline = time.monotonic() + DEADLINE_S
        while "whole list arrived" not in (marks := json.loads(path.read_text())):
            assert time.monotonic() < deadline, f"the list never came whole: {marks}"
            time.sleep(0.05)
    finally:
        terminal.close()
    reached = [(step, marks[step] - terminal.began) for step in STEPS]
    reached.append(("first row on the screen", shown_s))
    return [(f"at: {step}", seconds, "s") for step, seconds in sorted(reached, key=lambda pair: pair[1])]


def _ssh_ps_s(host: BenchHost) -> float:
    """Return the seconds of OpenSSH's client until the first byte of `ps`: the least that any tool over SSH takes."""
    options = ["-F", "none", "-i", str(host.sshd.client_key_path), "-p", str(host.proxy.port)]
    options += ["-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={host.home / '.ssh/known_hosts'}"]
    began = time.monotonic()
    command = ["ssh", *options, f"{host.sshd.user}@127.0.0.1", "ps -eo pid,ppid,user,args"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.read(1)
        elapsed = time.monotonic() - began
        process.stdout.read()
    assert process.returncode == 0
    return elapsed


def test_first_data(host: BenchHost) -> None:
    marker = first_row()
    shutil.rmtree(host.home / "pycache", ignore_errors=True)
    cold = _started(host, host.argv(), marker)
    warm: list[Start] = []
    bare: list[Start] = []
    ssh: list[float] = []
    _started(host, [sys.executable, "-c", BARE_APP], "nothing-but-this")
    for _ in range(WARM_STARTS):
        # In turns, so that all meet the same load.
        warm.append(_started(host, host.argv(), marker))
        bare.append(_started(host, [sys.executable, "-c", BARE_APP], "nothing-but-this"))
        ssh.append(_ssh_ps_s(host))
    ours = statistics.median(start.wall_s for start in warm)
    floor = statistics.median(start.wall_s for start in bare)
    limits = [
        Limit("warm start, median", ours, MOST_S, "s"),
        Limit("… of a Textual app that shows one word", 100.0 * ours / floor, MOST_OF_BARE, "%"),
    ]
    rows = [
        ("warm start, best", min(start.wall_s for start in warm), "s"),
        ("warm start, worst", max(start.wall_s for start in warm), "s"),
        ("warm start, CPU of the console by then, median", statistics.median(start.cpu_s for start in warm), "s"),
        ("cold start: no byte code kept, everything compiled", cold.wall_s, "s"),
        ("a Textual app that shows one word, median", floor, "s"),
        ("… its CPU by then, median", statistics.median(start.cpu_s for start in bare), "s"),
        ("`ssh host ps`, first byte, median", statistics.median(ssh), "s"),
        *_steps(host),
    ]
    Table("First live data on the screen, counted from the command", limits, rows).check()
