"""Which GPUs the demo shows: this machine's own when it has a driver, else simulated ones that a file describes."""

from __future__ import annotations

import ctypes
import importlib.resources
import json
import os
from collections.abc import Mapping
from pathlib import Path

ENVIRONMENT = "EAGLE3_DEMO_GPUS"
"""Names the file for `console.demo.simulated_nvml`, which takes pynvml's place in the demo's agent."""

GPUS = 8
TOTAL_BYTES = 96 << 30
RANK_BYTES = 74 << 30
BUSY_SHARE = 0.02
"""A rank that uses so much of a core stands for a fully busy GPU: eight of them leave the machine to its owner."""


def has_driver() -> bool:
    """Return whether this machine has an NVIDIA driver: then nothing about GPUs is simulated."""
    if Path("/dev/nvidiactl").exists():
        return True
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def simulated_modules() -> dict[str, str]:
    """Return what the demo's agent gets in place of pynvml: name → source."""
    source = importlib.resources.files("console.demo").joinpath("simulated_nvml.py")
    return {"pynvml": source.read_text(encoding="utf-8")}


def write_map(path: Path, ranks: Mapping[int, int]) -> None:
    """Replace the file at ``path``: ``ranks`` is pid → GPU of every living rank."""
    jobs = [{"pid": pid, "gpu": gpu, "bytes": RANK_BYTES, "busy_share": BUSY_SHARE} for pid, gpu in ranks.items()]
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps({"gpus": GPUS, "total_bytes": TOTAL_BYTES, "jobs": jobs}), encoding="ascii")
    os.replace(temporary, path)  # noqa: PTH105 - one system call, atomic
