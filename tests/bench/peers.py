"""The tools that our figures are held against: those on PATH, and a plain sampler that is always there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.pseudo_terminal import PseudoTerminal

HTOP, BTOP, NVITOP, PLAIN = "htop, every 1 s", "btop, every 2 s", "nvitop, every 1 s", "psutil.process_iter, every 1 s"

PLAIN_SAMPLER = """
import time
import psutil

NAMES = ["pid", "ppid", "create_time", "uids", "status", "num_threads", "cpu_times", "memory_info", "cmdline"]
due = time.monotonic()
while True:
    for process in psutil.process_iter(NAMES):
        pass
    due = max(due + 1.0, time.monotonic())
    time.sleep(max(0.0, due - time.monotonic()))
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """One tool as it is started; ``title`` names it and its pace."""

    title: str
    argv: tuple[str, ...]


def find_peers() -> tuple[list[Peer], list[str]]:
    """Return the tools of this machine, and one note for each that is not there."""
    wanted: list[tuple[str, str, tuple[str, ...], str]] = [
        ("htop", HTOP, ("-d", "10"), "apt-get install htop"),
        ("btop", BTOP, ("--utf-force",), "apt-get install btop"),
        ("nvitop", NVITOP, ("--interval", "1"), "pip install nvitop"),
    ]
    found, notes = [Peer(PLAIN, (sys.executable, "-c", PLAIN_SAMPLER))], []
    for program, title, words, remedy in wanted:
        path = _which(program)
        if path is None:
            notes.append(f"{program} was not there to compare with: {remedy}")
        else:
            found.append(Peer(title, (path, *words)))
    return found, notes


def _which(program: str) -> str | None:
    beside_python = str(Path(sys.executable).parent)
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), beside_python]))


def start_peers(peers: list[Peer], environment: Mapping[str, str]) -> dict[str, PseudoTerminal]:
    """Start every peer on a terminal of its own."""
    return {peer.title: PseudoTerminal(peer.argv, environment) for peer in peers}


def compared(cpu: Mapping[str, float], ours: float, title: str) -> tuple[str, float, str] | None:
    """Return the row that says how many times ``ours`` a peer takes; None when it was not measured."""
    return (f"… of what {title} takes", 100.0 * ours / cpu[title], "%") if cpu.get(title) else None
