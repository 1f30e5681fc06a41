"""One GPU as NVML shows it: every figure asked for by itself, so that a refused one is None and costs no other."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from console.agent import nvml_words
from console.agent.nvml_calls import Calls, GpuFailed, number, text_of
from console.agent.nvml_processes import merge_views, mig_handles, process_views

StartTicksOf = Callable[[int], Optional[int]]

PCIE_EVERY = 5
"""Samples between two readings of the PCIe counters: NVML measures them by waiting 20 ms for each."""

UNCONFIRMED = "not in /proc: another PID namespace, or it has ended"
ENDED = "has ended; the driver has not given its memory back yet"

_BYTES_PER_KB = 1024
"""Of nvmlDeviceGetPcieThroughput: nvml.h says "KB/s" and no more; nvitop and nvtop read KiB."""

_MEASURED = (
    "memory_used_bytes",
    "memory_total_bytes",
    "utilisation_percent",
    "memory_utilisation_percent",
    "temperature_c",
    "power_w",
    "clock_sm_mhz",
    "clock_memory_mhz",
    "throttle",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
    "processes",
)
_SLOW = ("uuid", "name", "power_limit_w", "ecc_uncorrected", "ecc_corrected", "mig")


class Sample(NamedTuple):
    """One reading of a GPU."""

    row: Dict[str, Any]
    """The GPU's row of the ``gpus`` event."""
    holders: Dict[int, int]
    """pid → start ticks of the listed processes that /proc confirms, or did confirm in an earlier sample."""


class GpuReader:
    """Reads samples of the GPU ``index``. Slow-changing figures are read again after ``slow_s`` seconds.

    ``start_ticks_of`` tells which process a pid is (None: not in /proc); it is called from the reading thread.
    """

    def __init__(self, nvml: Any, index: int, start_ticks_of: StartTicksOf, slow_s: float) -> None:
        self._nvml = nvml
        self._index = index
        self._start_ticks_of = start_ticks_of
        self._slow_s = slow_s
        self._handle: Any = None
        self._slow: Dict[str, Any] = dict.fromkeys(_SLOW)
        self._slow_at: Optional[float] = None
        self._pcie: Dict[str, Any] = {}
        self._holders: Dict[int, int] = {}
        # GPUs take turns, so that no two wait for their PCIe counters in the same second.
        self._count = index

    def read(self, now: float) -> Sample:
        """Return what the GPU is like at ``now`` (seconds); nothing that NVML answers makes it raise."""
        calls = Calls(self._nvml)
        try:
            if self._handle is None:
                self._handle = self._open()
            row = self._measure(calls, now)
        except GpuFailed as failure:
            self._handle = None
            return self._failed(failure.state, failure.reason, now)
        if calls.answered == 0 and calls.bad:
            self._handle = None
            return self._failed(*nvml_words.gpu_error(*calls.bad), now=now)
        return Sample(row, self._holders)

    def _open(self) -> Any:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByIndex(self._index)
        except self._nvml.NVMLError as error:
            raise GpuFailed(*nvml_words.gpu_error(error.value, str(error))) from None
        self._slow_at = None
        self._pcie = {}
        return handle

    def _failed(self, state: str, reason: str, now: float) -> Sample:
        """Return a sample without figures; what identifies the GPU stays, so that it can be found in the machine."""
        self._holders = {}
        row = empty_row(self._index)
        row.update(state=state, reason=reason, uuid=self._slow["uuid"], name=self._slow["name"], sampled_t=now)
        return Sample(row, {})

    def _measure(self, calls: Calls, now: float) -> Dict[str, Any]:
        handle = self._handle
        if self._slow_at is None or now - self._slow_at >= self._slow_s:
            self._slow = _slow_fields(calls, handle)
            self._slow_at = now
            # What the library remembers of a GPU is no sign that it still answers.
            calls.answered = 0
        if self._count % PCIE_EVERY == 0:
            self._pcie = _pcie(calls, handle)
        self._count += 1
        row = empty_row(self._index)
        row.update(self._slow)
        row.update(self._pcie)
        row.update(_memory(calls, handle))
        rates = calls("nvmlDeviceGetUtilizationRates", handle)
        row.update(
            utilisation_percent=number(getattr(rates, "gpu", None)),
            memory_utilisation_percent=number(getattr(rates, "memory", None)),
            temperature_c=_temperature(calls, handle),
            power_w=_watts(calls("nvmlDeviceGetPowerUsage", handle)),
            clock_sm_mhz=number(calls("nvmlDeviceGetClockInfo", handle, 1)),  # NVML_CLOCK_SM
            clock_memory_mhz=number(calls("nvmlDeviceGetClockInfo", handle, 2)),  # NVML_CLOCK_MEM
            throttle=_throttle(calls, handle),
            processes=self._processes(calls, handle),
            sampled_t=now,
        )
        return row

    def _processes(self, calls: Calls, handle: Any) -> Optional[List[Dict[str, Any]]]:
        views = process_views(calls, [handle])
        if self._slow["mig"]:
            # The whole GPU's list is complete only for a privileged user; each instance's own list is not restricted.
            views += process_views(calls, mig_handles(calls, handle))
        before, self._holders = self._holders, {}
        if not views:
            return None
        rows = []
        for pid, held in sorted(merge_views(views).items()):
            start_ticks = self._start_ticks_of(pid)
            # Between the end of a process and the release of its memory NVML goes on listing it.
            holder = before.get(pid) if start_ticks is None else start_ticks
            if holder is not None:
                self._holders[pid] = holder
            note = "" if start_ticks is not None else UNCONFIRMED if holder is None else ENDED
            rows.append({"pid": pid, "memory_bytes": held, "start_ticks": start_ticks, "note": note})
        return rows


def empty_row(index: int) -> Dict[str, Any]:
    """Return the row of a GPU of which nothing is known yet: every figure None."""
    row: Dict[str, Any] = {"index": index, "state": "ok", "reason": "", "sampled_t": 0.0}
    row.update(dict.fromkeys(_SLOW))
    row.update(dict.fromkeys(_MEASURED))
    return row


def _watts(milliwatts: Any) -> Optional[float]:
    milliwatts = number(milliwatts)
    return None if milliwatts is None else milliwatts / 1000.0


def _slow_fields(calls: Calls, handle: Any) -> Dict[str, Any]:
    mig = calls("nvmlDeviceGetMigMode", handle)
    return {
        "uuid": text_of(calls("nvmlDeviceGetUUID", handle)),
        "name": text_of(calls("nvmlDeviceGetName", handle)),
        "power_limit_w": _watts(calls("nvmlDeviceGetEnforcedPowerLimit", handle)),
        # Volatile counters (since the driver loaded): the ones that nvidia-smi's table shows.
        "ecc_uncorrected": number(calls("nvmlDeviceGetTotalEccErrors", handle, 1, 0)),
        "ecc_corrected": number(calls("nvmlDeviceGetTotalEccErrors", handle, 0, 0)),
        "mig": None if mig is None else bool(mig[0]),
    }


def _memory(calls: Calls, handle: Any) -> Dict[str, Any]:
    # Version 2 keeps what the driver reserves for itself out of "used", as nvidia-smi's figure does; older drivers have
    # only version 1, which counts it in.
    memory = calls("nvmlDeviceGetMemoryInfo", handle, getattr(calls.nvml, "nvmlMemory_v2", None))
    if memory is None:
        memory = calls("nvmlDeviceGetMemoryInfo", handle)
    return {
        "memory_used_bytes": number(getattr(memory, "used", None)),
        "memory_total_bytes": number(getattr(memory, "total", None)),
    }


def _temperature(calls: Calls, handle: Any) -> Any:
    # Marked as deprecated in favour of ...V, which older drivers do not have. Sensor 0 is the GPU itself.
    degrees = calls("nvmlDeviceGetTemperature", handle, 0)
    if degrees is None:
        degrees = calls("nvmlDeviceGetTemperatureV", handle, 0)
    return number(degrees)


def _throttle(calls: Calls, handle: Any) -> Optional[List[str]]:
    # The older name is the only one that older drivers know; the bits are the same.
    mask = calls("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if mask is None:
        mask = calls("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    mask = number(mask)
    return None if mask is None else nvml_words.throttle_words(mask)


def _pcie(calls: Calls, handle: Any) -> Dict[str, Any]:
    sent = number(calls("nvmlDeviceGetPcieThroughput", handle, 0))
    received = number(calls("nvmlDeviceGetPcieThroughput", handle, 1))
    return {
        "pcie_tx_bytes_per_s": None if sent is None else sent * _BYTES_PER_KB,
        "pcie_rx_bytes_per_s": None if received is None else received * _BYTES_PER_KB,
    }
