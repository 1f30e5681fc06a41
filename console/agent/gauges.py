"""The host's own figures: CPU, memory and network through psutil if the host has it, load and disks without."""

from __future__ import annotations

import os
import shutil
import threading
import time
from typing import Any, Dict, List, Optional, Sequence

_FROM_PSUTIL = ("cpu_percent", "memory", "swap", "network")


class Gauges:
    """Samples in a thread of its own, since reading a dead network disk can block for ever."""

    def __init__(self, disks: Sequence[str], interval_s: float) -> None:
        self._disks = list(disks)
        self._interval_s = interval_s
        self._latest: Dict[str, Any] = {}
        self._disk_rows: List[Dict[str, Any]] = [{"path": path, "error": "not read yet"} for path in self._disks]
        self._disks_since = 0.0
        self._stop = threading.Event()
        self._net: Optional[Any] = None
        self._net_t = 0.0
        self._psutil, self._why = _load_psutil()

    def start(self) -> None:
        """Begin sampling."""
        threading.Thread(target=self._run, name="gauges", daemon=True).start()
        if self._disks:
            threading.Thread(target=self._run_disks, name="disks", daemon=True).start()

    def stop(self) -> None:
        """End sampling."""
        self._stop.set()

    def snapshot(self) -> Dict[str, Any]:
        """Return the latest figures as in the ``gauges`` event; {} before the first sample."""
        latest = self._latest
        if not latest:
            return {}
        waited = time.monotonic() - self._disks_since if self._disks_since else 0.0
        rows = self._disk_rows
        if waited > 10.0:
            rows = [{"path": row["path"], "error": "no answer for %d s" % waited} for row in rows]
        return {**latest, "disks": rows}

    def _run(self) -> None:
        if self._psutil is not None:
            # The first call only sets the baseline: without it the figure would be the average since boot.
            self._psutil.cpu_percent(None)
        while not self._stop.wait(min(self._interval_s, 0.5) if not self._latest else max(self._interval_s, 2.0)):
            self._latest = self._sample()

    def _sample(self) -> Dict[str, Any]:
        sample: Dict[str, Any] = {"cores": os.cpu_count(), "load": _load(), "missing": {}}
        if self._psutil is None:
            sample["missing"] = dict.fromkeys(_FROM_PSUTIL, self._why)
            return sample
        try:
            memory, swap = self._psutil.virtual_memory(), self._psutil.swap_memory()
            sample["cpu_percent"] = self._psutil.cpu_percent(None)
            sample["memory_used_bytes"] = memory.total - memory.available
            sample["memory_total_bytes"] = memory.total
            sample["swap_used_bytes"], sample["swap_total_bytes"] = swap.used, swap.total
            sample.update(self._network())
        except Exception as error:  # psutil raises what /proc happens to raise; the other gauges go on
            sample["missing"] = {name: "psutil failed: %s" % error for name in _FROM_PSUTIL if name not in sample}
        return sample

    def _network(self) -> Dict[str, float]:
        now = time.monotonic()
        interfaces = self._psutil.net_io_counters(pernic=True)
        rx = sum(counters.bytes_recv for name, counters in interfaces.items() if name != "lo")
        tx = sum(counters.bytes_sent for name, counters in interfaces.items() if name != "lo")
        before, since = self._net, self._net_t
        self._net, self._net_t = (rx, tx), now
        if before is None or rx < before[0] or tx < before[1] or now <= since:
            return {}
        return {
            "net_rx_bytes_per_s": round((rx - before[0]) / (now - since)),
            "net_tx_bytes_per_s": round((tx - before[1]) / (now - since)),
        }

    def _run_disks(self) -> None:
        while True:
            self._disks_since = time.monotonic()
            rows = [_disk(path) for path in self._disks]
            self._disk_rows, self._disks_since = rows, 0.0
            if self._stop.wait(10.0):
                return


def _disk(path: str) -> Dict[str, Any]:
    try:
        usage = shutil.disk_usage(path)
    except OSError as error:
        return {"path": path, "error": error.strerror or str(error)}
    return {"path": path, "used_bytes": usage.used, "total_bytes": usage.total, "free_bytes": usage.free}


def _load() -> Optional[List[float]]:
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return None


def _load_psutil() -> Any:
    try:
        import psutil
    except Exception as error:  # a broken installation of the host must not take the agent down
        return None, "psutil is not installed for the host's Python (%s)" % type(error).__name__
    return psutil, ""
