"""NVML calls, each guarded by itself: a refused figure is None and costs no other."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from console.agent import nvml_words

_NOT_AVAILABLE = (2**64 - 1, 2**32 - 1)
"""NVML_VALUE_NOT_AVAILABLE of both widths: the driver's way to say "n/a" in a call that succeeds."""

_ORDINARY = frozenset((nvml_words.NOT_SUPPORTED, nvml_words.FUNCTION_NOT_FOUND, nvml_words.NOT_FOUND))
"""Refusals that say nothing bad of the GPU: it has no such figure."""


class GpuFailed(Exception):
    """The GPU as a whole does not answer: lost, or no handle for it."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state = state
        self.reason = reason


class Calls:
    """The NVML calls of one sample. A refused call returns None and its error code is kept."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.answered = 0
        self.bad: Optional[Tuple[int, str]] = None

    def __call__(self, name: str, *args: Any) -> Any:
        """Return what ``name`` answers, None when it refuses.

        Raises:
            GpuFailed: the GPU is lost.
        """
        function = getattr(self.nvml, name, None)
        if function is None:
            return None
        try:
            answer = function(*args)
        except self.nvml.NVMLError as error:
            if error.value == nvml_words.GPU_IS_LOST:
                raise GpuFailed("lost", nvml_words.LOST) from None
            if error.value not in _ORDINARY:
                self.bad = self.bad or (error.value, str(error))
            return None
        except (AttributeError, OSError, TypeError, ValueError):
            # pynvml decodes text strictly, and an old or odd library may answer in another shape: no figure, no crash.
            return None
        self.answered += 1
        return answer


def number(value: Any) -> Any:
    """Return ``value``; None for what NVML uses to say "n/a"."""
    return None if value in _NOT_AVAILABLE else value


def text_of(value: Any) -> Optional[str]:
    """Return a text that some versions of pynvml give as bytes; None stays None."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
