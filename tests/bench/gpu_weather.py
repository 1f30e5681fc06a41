"""Eight GPUs of the NVML stand-in whose figures move every second, as those of GPUs at work do."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.nvml.build import Scenario

GIB = 1 << 30
COUNT = 8
TOTAL = 96 * GIB
SETTLED = 0.9
"""Of the memory; what a training run holds hardly moves."""


class GpuWeather:
    """Writes the scenario anew every second; GPU ``i`` is held by ``owners[i]``."""

    def __init__(self, path: Path, owners: Sequence[int]) -> None:
        self._owners = list(owners)[:COUNT]
        self._random = random.Random(8)
        self._scenario = Scenario(path, *self._facts())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Let the figures rest."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            self._scenario.write(*self._facts())

    def _facts(self) -> list[str]:
        facts = [f"count {COUNT}", "driver 550.54.15"]
        draw = self._random.randint
        for gpu, owner in enumerate(self._owners):
            used = int(TOTAL * SETTLED) + draw(0, 16) * 2**20
            facts += [
                f"gpu {gpu} name NVIDIA H100 80GB HBM3",
                f"gpu {gpu} mem {used} {TOTAL}",
                f"gpu {gpu} util {draw(85, 100)} {draw(40, 60)}",
                f"gpu {gpu} temp {draw(60, 70)}",
                f"gpu {gpu} power {draw(400_000, 690_000)} 700000",
                f"gpu {gpu} clocks {draw(1900, 1980)} 2619",
                f"gpu {gpu} pcie {draw(0, 900_000)} {draw(0, 900_000)}",
                f"gpu {gpu} proc {owner} {used - GIB}",
            ]
        return facts
