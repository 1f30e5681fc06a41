"""The last minute of every GPU's utilisation, kept on the operator's side."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from console.host.state import Gpu

SAMPLES = 60


class UtilisationHistory:
    """Utilisation in percent by GPU, oldest first; None where a sample had none."""

    def __init__(self) -> None:
        self._values: dict[str, deque[int | None]] = {}
        self._last_t: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, gpus: Sequence[Gpu]) -> None:
        """Take in every sample that is newer than the last one of its GPU, and forget GPUs that are gone."""
        names = {_name(gpu) for gpu in gpus}
        for gone in self._values.keys() - names:
            del self._values[gone], self._last_t[gone], self._counts[gone]
        for gpu in gpus:
            name = _name(gpu)
            if name in self._values and self._last_t[name] == gpu.sampled_t:
                continue
            self._values.setdefault(name, deque(maxlen=SAMPLES)).append(gpu.utilisation_percent)
            self._last_t[name] = gpu.sampled_t
            self._counts[name] = self._counts.get(name, 0) + 1

    def of(self, gpu: Gpu) -> Sequence[int | None]:
        """Return up to 60 samples of ``gpu``, oldest first."""
        return tuple(self._values.get(_name(gpu), ()))

    def count(self, gpu: Gpu) -> int:
        """Return how many samples of ``gpu`` there have ever been."""
        return self._counts.get(_name(gpu), 0)


def _name(gpu: Gpu) -> str:
    # Not the UUID: a lost GPU has none any more, and its line must keep its history.
    return str(gpu.index)
