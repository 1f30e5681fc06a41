"""Made-up GPUs for the demo: the part of pynvml's interface that the agent uses, fed by real processes.

The demo sends this file in place of ``pynvml`` when the machine has no NVIDIA driver, so it needs the standard library
and Python 3.9 only. What is real: which processes live, whether they are stopped, and the CPU time they use: it stands
for the GPU's utilisation. What is made up, and marked SIMULATED wherever it is shown: the GPUs, and that the processes
hold memory on them. Temperature and power follow the utilisation smoothly; what nothing stands for is "not supported".

``EAGLE3_DEMO_GPUS`` names a JSON file, looked at before every sample:
``{"gpus": 8, "total_bytes": N, "jobs": [{"pid": N, "gpu": N, "bytes": N, "start_ticks": N, "busy_share": F}, ...]}``.
``start_ticks`` may be left out; ``busy_share`` (default 1) is the share of a core that stands for a fully busy GPU.
Replace it by renaming; a file that cannot be read leaves the last content in force.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from types import SimpleNamespace
from typing import Any

SIMULATED = True
"""Tells the agent to mark all of this as simulated."""

NVML_ERROR_UNINITIALIZED = 1
NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_DRIVER_NOT_LOADED = 9

NAME = "SIMULATED RTX PRO 6000"
DEFAULT_GPUS = 8
DEFAULT_TOTAL_BYTES = 96 << 30
BASE_BYTES = 600 << 20
"""Used on every GPU with no process listed, as a driver uses some."""

IDLE_C, BUSY_C, TEMPERATURE_TAU_S = 34.0, 76.0, 25.0
IDLE_W, BUSY_W, POWER_TAU_S = 70.0, 540.0, 3.0
LIMIT_W = 600.0

COUNT_S = 0.5
"""CPU time is counted in ticks of 10 ms: over a shorter time it would be no measure."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class NVMLError(Exception):
    """What pynvml raises: ``value`` is NVML's return code."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return f"simulated NVML error {self.value}"


class _Gpu:
    """The figures of one GPU, moved on by :meth:`sample`."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.lock = threading.Lock()
        self.at = 0.0
        self.jobs: list[SimpleNamespace] = []
        self.counted_at = 0.0
        self.cpu_s: dict[tuple[int, int], float] = {}
        self.utilisation = 0
        self.temperature = IDLE_C
        self.watts = IDLE_W

    def sample(self) -> None:
        """Look at the jobs' processes and let the figures follow."""
        with self.lock:
            now = time.monotonic()
            elapsed = now - self.at if self.at else 0.0
            self.at = now
            self._look(now)
            goal = self.utilisation / 100.0
            self.temperature = _follow(self.temperature, IDLE_C + goal * (BUSY_C - IDLE_C), elapsed, TEMPERATURE_TAU_S)
            self.watts = _follow(self.watts, IDLE_W + goal * (BUSY_W - IDLE_W), elapsed, POWER_TAU_S)

    def _look(self, now: float) -> None:
        alive, cpu_s, running = [], {}, set()
        for job in _config().get("jobs", ()):
            if job["gpu"] != self.index:
                continue
            seen = _process(job["pid"])
            if seen is None or job.get("start_ticks", seen.start_ticks) != seen.start_ticks:
                continue
            alive.append(SimpleNamespace(pid=job["pid"], usedGpuMemory=job["bytes"]))
            key = (job["pid"], seen.start_ticks)
            cpu_s[key] = seen.cpu_s / job.get("busy_share", 1.0)
            if seen.state not in "Tt":
                running.add(key)
        self.jobs = alive
        if not running:
            self.utilisation = 0
        elapsed = now - self.counted_at
        if elapsed >= COUNT_S:
            used_s = sum(cpu_s[key] - self.cpu_s.get(key, cpu_s[key]) for key in running)
            self.utilisation = min(100, round(100.0 * used_s / elapsed))
            self.counted_at, self.cpu_s = now, cpu_s


def _follow(value: float, goal: float, elapsed: float, tau_s: float) -> float:
    """Return ``value`` after ``elapsed`` seconds of approaching ``goal``, two thirds of the way in ``tau_s``."""
    return goal + (value - goal) * math.exp(-elapsed / tau_s)


def _process(pid: int) -> SimpleNamespace | None:
    """Return state, start_ticks and CPU seconds of a living process; None when it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - read once a second and GPU
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    state = fields[0].decode("ascii", "replace")
    if state in "ZX":
        return None
    cpu_s = _exact_cpu_s(pid)
    if cpu_s is None or int(fields[17]) > 1:
        cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return SimpleNamespace(state=state, cpu_s=cpu_s, start_ticks=int(fields[19]))


def _exact_cpu_s(pid: int) -> float | None:
    """Return the CPU time of a single-threaded process to the nanosecond; None where it is not counted so."""
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123 - read once a second and GPU
            nanoseconds = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return nanoseconds / 1e9 if nanoseconds else None


_lock = threading.Lock()
_gpus: list[_Gpu] = []
_file: dict[str, Any] = {"stamp": None, "config": None}


def _config() -> dict[str, Any]:
    """Return the content of the demo's file, read again when it was replaced; {} when there never was one."""
    path = os.environ.get("EAGLE3_DEMO_GPUS", "")
    with _lock:
        try:
            status = os.stat(path)  # noqa: PTH116 - looked at once a second and GPU
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
            if stamp != _file["stamp"]:
                with open(path, encoding="utf-8") as file:  # noqa: PTH123
                    _file["config"] = json.load(file)
                _file["stamp"] = stamp
        except (OSError, ValueError):
            pass
        return _file["config"] or {}


def nvmlInit() -> None:
    """Start; the demo's file must be there.

    Raises:
        NVMLError: it is not.
    """
    config = _config()
    if not config:
        raise NVMLError(NVML_ERROR_DRIVER_NOT_LOADED)
    if not _gpus:
        _gpus.extend(_Gpu(index) for index in range(config.get("gpus", DEFAULT_GPUS)))


def nvmlShutdown() -> None:
    """Forget the GPUs."""
    _gpus.clear()


def nvmlSystemGetDriverVersion() -> str:
    """Return what stands for the driver's version."""
    return "SIMULATED"


def nvmlSystemGetNVMLVersion() -> str:
    """Return what stands for the library's version."""
    return "SIMULATED"


def nvmlSystemGetCudaDriverVersion() -> int:
    """Refuse: there is no CUDA."""
    raise NVMLError(NVML_ERROR_NOT_SUPPORTED)


def nvmlDeviceGetCount() -> int:
    """Return the number of GPUs.

    Raises:
        NVMLError: before nvmlInit.
    """
    if not _gpus:
        raise NVMLError(NVML_ERROR_UNINITIALIZED)
    return len(_gpus)


def nvmlDeviceGetHandleByIndex(index: int) -> _Gpu:
    """Return the GPU ``index``.

    Raises:
        NVMLError: there is none of that index.
    """
    if not 0 <= index < len(_gpus):
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return _gpus[index]


def nvmlDeviceGetName(handle: _Gpu) -> str:
    """Return the name, which says that the GPU is made up."""
    return NAME


def nvmlDeviceGetUUID(handle: _Gpu) -> str:
    """Return an identifier that no real GPU has."""
    return f"SIMULATED-GPU-{handle.index}"


def nvmlDeviceGetMemoryInfo(handle: _Gpu, version: int | None = None) -> SimpleNamespace:
    """Return total, used and free bytes: used is what the living jobs are listed with, and a small base.

    The agent begins a sample with this call, so it alone looks at the processes; later calls tell of the same moment.
    """
    handle.sample()
    total = int(_config().get("total_bytes", DEFAULT_TOTAL_BYTES))
    used = min(total, BASE_BYTES + sum(job.usedGpuMemory for job in handle.jobs))
    return SimpleNamespace(total=total, used=used, free=total - used)


def nvmlDeviceGetUtilizationRates(handle: _Gpu) -> SimpleNamespace:
    """Return the jobs' CPU time as ``gpu`` percent, 0 while all are stopped; nothing stands for ``memory``."""
    return SimpleNamespace(gpu=handle.utilisation, memory=None)


def nvmlDeviceGetTemperature(handle: _Gpu, sensor: int) -> int:
    """Return degrees Celsius that follow the utilisation."""
    return round(handle.temperature)


def nvmlDeviceGetPowerUsage(handle: _Gpu) -> int:
    """Return milliwatts that follow the utilisation."""
    return round(handle.watts * 1000)


def nvmlDeviceGetEnforcedPowerLimit(handle: _Gpu) -> int:
    """Return the limit in milliwatts."""
    return round(LIMIT_W * 1000)


def nvmlDeviceGetComputeRunningProcesses_v3(handle: _Gpu) -> list[SimpleNamespace]:
    """Return pid and usedGpuMemory of the living jobs of this GPU."""
    return list(handle.jobs)
