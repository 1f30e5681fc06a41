"""A job that really computes, for the demo: workers write, tokenise, count and hash text, and record what they found.

It stands in for a generate stage: one main process and its workers; TERM to the main process ends all of them in order.
Each worker keeps to a small share of a core.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from console.demo.bound import job, start_bound

WORDS = ("draft", "verify", "accept", "reject", "token", "hidden", "layer", "head", "tree", "rank", "batch", "cache")
ROUND_WORDS = 4000
RECORD_EVERY_S = 1.0
END_WITHIN_S = 2.0


def main() -> int:
    """Run the main process or, with ``--worker``, one worker."""
    parser = argparse.ArgumentParser(prog="demo_generate")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--worker", type=int)
    parser.add_argument("--share", type=float, default=0.08, help="part of a core that each worker uses")
    arguments = parser.parse_args()
    if arguments.worker is not None:
        compute(arguments.worker, arguments.output, arguments.share)
        return 0
    return run_workers(arguments.workers, arguments.output, arguments.share)


def run_workers(count: int, output: Path, share: float) -> int:
    """Start ``count`` workers and wait until they have ended or this process is asked to end; return the exit code."""

    def on_term(_signal: int, _frame: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, on_term)
    base = job("demo_generate.py")
    common = ["--share", str(share), "--output", str(output)]
    workers: list[subprocess.Popen[bytes]] = []
    try:
        workers.extend(start_bound([*base, "--worker", str(number), *common]) for number in range(count))
        for worker in workers:
            worker.wait()
    finally:
        end(workers)
    return 0


def end(children: list[subprocess.Popen[bytes]]) -> None:
    """End and reap ``children``; one that does not heed TERM in time, a stopped one for example, is killed."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + END_WITHIN_S
    for child in children:
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def compute(number: int, output: Path, share: float) -> None:
    """Work at ``share`` of a core for ever and append one record a second to ``output``."""
    source = random.Random(number)
    done = 0
    recorded_at = time.monotonic()
    while True:
        began, spent = time.monotonic(), time.process_time()
        figures = one_round(source)
        done += 1
        if began - recorded_at >= RECORD_EVERY_S:
            recorded_at = began
            append(output, {"worker": number, "rounds": done, **figures})
        spent = time.process_time() - spent
        time.sleep(max(0.0, spent / share - (time.monotonic() - began)))


def one_round(source: random.Random) -> dict[str, object]:
    """Return the figures of one piece of text: tokens, distinct tokens, digest."""
    text = " ".join(f"{source.choice(WORDS)}{source.randrange(100)}" for _ in range(ROUND_WORDS))
    counts = Counter(re.findall(r"[a-z]+|\d+", text))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {
        "tokens": counts.total(),
        "distinct": len(ordered),
        "sha256": hashlib.sha256(repr(ordered).encode()).hexdigest(),
    }


def append(output: Path, record: dict[str, object]) -> None:
    """Append ``record`` as one JSON line, in one write so that workers do not mix their lines."""
    with output.open("a", encoding="ascii") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    sys.exit(main())
