"""Runs the agent's GPU sampler, with the real pynvml, in a process of its own over the NVML stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.nvml.build import Scenario, standin_env

CHILD = Path(__file__).with_name("sampler_child.py")
REPOSITORY = CHILD.parents[2]
DEADLINE_S = 60.0
"""For anything that should take far less: a busy machine must not fail a test."""


class SamplerProcess:
    """A sampler that ticks 20 times a second and retries at once. Tests of hangs pass a short ``hang_s``.

    ``scenario`` may be changed while it runs; ``options`` are GpuSampler's.
    """

    def __init__(self, libdir: Path, scenario: Scenario, **options: Any) -> None:
        self.scenario = scenario
        options = {"interval_s": 0.05, "hang_s": DEADLINE_S, "retry_s": 0.05, "slow_s": 0.05, **options}
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), json.dumps(options)],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **standin_env(libdir, scenario.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: str, *arguments: Any) -> Any:
        """Return the child's answer to one command."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the sampler's process ended"
        return json.loads(line)

    def snapshot(self) -> dict[str, Any]:
        """Return the sampler's snapshot now."""
        return self.ask("snapshot")

    def gpus(self) -> list[dict[str, Any]]:
        """Return the rows of the GPUs now."""
        return self.snapshot()["gpus"]

    def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the first snapshot that meets ``condition``; fails with the last one after the deadline."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition(view := self.snapshot()):
            assert time.monotonic() < deadline, f"never came; last: {json.dumps(view, indent=1)}"
            time.sleep(0.02)
        return view

    def sampled(self) -> dict[str, Any]:
        """Return a snapshot in which the driver is known and every GPU has been sampled."""
        return self.until(
            lambda view: view["driver"]["state"] != "unknown" and all(gpu["sampled_t"] > 0 for gpu in view["gpus"])
        )

    def fresh(self) -> dict[str, Any]:
        """Return a snapshot in which every working GPU was sampled after this call."""
        done, _ = self.ask("wait_fresh", DEADLINE_S)
        assert done
        return self.snapshot()

    def close(self) -> None:
        """End the process, hung calls or not."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def sampling(libdir: Path, folder: Path, *lines: str, **options: Any) -> Iterator[SamplerProcess]:
    """Run a sampler over the scenario ``lines``, which is kept in ``folder``."""
    sampler = SamplerProcess(libdir, Scenario(folder / "scenario", *lines), **options)
    try:
        yield sampler
    finally:
        sampler.close()
