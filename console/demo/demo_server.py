"""A stand-in for a model server, for the demo: one main process and a rank for each GPU, which serve nothing.

A rank really computes, but little: a hundredth of a core, in waves, from which the simulated GPUs take their figures.

Its command line says ``--simulated``. TERM to the main process drains for some seconds and then ends the ranks, as a
real server does, so that a stop takes visible time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import signal
import subprocess
import sys
import time
from typing import NoReturn

from console.demo.bound import job, start_bound
from console.demo.gpus import BUSY_SHARE

SLICE_S = 0.25
"""How often a rank computes."""


def main() -> int:
    """Run the main process or, with ``--rank``, one rank."""
    parser = argparse.ArgumentParser(prog="demo_server")
    parser.add_argument("--simulated", action="store_true", required=True)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--drain-s", type=float, default=3.0)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        compute(arguments.rank)
    return serve(arguments.ranks, arguments.drain_s)


def compute(rank: int) -> NoReturn:
    """Hash for a wavering, small share of each slice of time, for ever."""
    block = bytes(4096)
    while True:
        load = 0.80 + 0.18 * math.sin(time.monotonic() / 7.0 + rank * 0.8)
        until = time.thread_time() + SLICE_S * BUSY_SHARE * load
        while time.thread_time() < until:
            block = hashlib.sha256(block).digest() * 128
        time.sleep(SLICE_S)


def serve(ranks: int, drain_s: float) -> int:
    """Start the ranks, print their pids as one JSON line, and keep them until TERM; return the exit code."""

    def on_term(_signal: int, _frame: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, on_term)
    base = job("demo_server.py", "--simulated")
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.extend(start_bound([*base, "--rank", str(rank)]) for rank in range(ranks))
        print(json.dumps([child.pid for child in started]), flush=True)
        for child in started:
            child.wait()
    except SystemExit:
        time.sleep(drain_s)
        raise
    finally:
        for child in started:
            child.kill()
        for child in started:
            child.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
