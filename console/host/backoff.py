"""How long to wait before the next attempt to connect: exponential, with full jitter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """The schedule of reconnects. Seconds throughout.

    Full jitter (a random part of the whole ceiling) keeps many consoles from coming back to a rebooted host in step.
    """

    first_s: float = 0.5
    most_s: float = 30.0
    steady_after_s: float = 30.0
    """A link that was up this long starts from the beginning after its next loss."""

    def ceiling_s(self, failures: int) -> float:
        """Return the longest wait after ``failures`` failures in a row (1 is the first)."""
        # 2**60 already exceeds any ceiling; a larger exponent would only overflow.
        return min(self.most_s, self.first_s * 2.0 ** min(max(failures - 1, 0), 60))

    def delay_s(self, failures: int, chance: float) -> float:
        """Return the wait after ``failures`` failures in a row, for a ``chance`` drawn evenly from 0 to 1."""
        return self.ceiling_s(failures) * chance

    def failures_after(self, failures: int, up_s: float) -> int:
        """Return the failures in a row after a link was lost that had been up for ``up_s``."""
        return 1 if up_s >= self.steady_after_s else failures + 1
