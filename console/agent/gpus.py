"""GpuSampler: the host's GPUs once a second, from threads that may hang for ever without holding up anyone else.

Any NVML call can block without end (a GPU that fell off the bus, a wedged driver). So the driver has one daemon thread
and every GPU one of its own; each publishes a finished row, and readers only ever pick up the last one. A thread whose
call does not return is reported as hung and is left alone until the call comes back: no second one is started for it.
"""

from __future__ import annotations

import importlib
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from console.agent import nvml_words
from console.agent.nvml_calls import Calls, text_of
from console.agent.nvml_fields import GpuReader, Sample, StartTicksOf, empty_row

HANG_S = 5.0
"""A call outstanding for longer counts as hung."""

RETRY_S = 30.0
"""Between two attempts on a driver that does not start or a GPU that does not answer."""

SLOW_S = 30.0
"""Between two readings of what hardly changes: name, power limit, MIG mode, ECC counters."""

STAGGER_S = 0.005
"""Between the turns of two GPUs: threads that wake as one fight for the interpreter, which costs a sixth more CPU."""

_RECHECK_S = 0.2
"""How often a wait looks again for a GPU that has come to hang: nothing tells it of that."""

Clock = Callable[[], float]


def _pynvml() -> Any:
    return importlib.import_module("pynvml")


class _GpuThread:
    """Samples one GPU on its own thread and keeps the last row."""

    def __init__(self, reader: GpuReader, index: int, sampler: "GpuSampler") -> None:
        self._reader = reader
        self._index = index
        self._sampler = sampler
        self._wake = threading.Event()
        self._last = Sample(dict(empty_row(index), reason="not sampled yet"), {})
        self._busy_since: Optional[float] = None
        self._thread = threading.Thread(target=self._run, name="gpu-%d" % index, daemon=True)

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def poke(self) -> None:
        """Sample at once, or right after the sample in progress; also ends the thread after the sampler's stop."""
        self._wake.set()

    def row(self, now: float) -> Dict[str, Any]:
        """Return the last row; a hung GPU keeps its last figures, whose age ``sampled_t`` tells."""
        row = dict(self._last.row)
        since = self._busy_since
        if since is not None and now - since > self._sampler.hang_s:
            row.update(state="hung", reason=nvml_words.gpu_silence(now - since))
        return row

    def held(self) -> List[Tuple[int, int, int]]:
        """Return (pid, start_ticks, bytes) of the last sample, for processes whose identity and memory are known."""
        row, holders = self._last
        processes = row["processes"] or ()
        held = [(p["pid"], holders.get(p["pid"]), p["memory_bytes"]) for p in processes]
        return [(pid, start, size) for pid, start, size in held if start is not None and size is not None]

    def _run(self) -> None:
        sampler = self._sampler
        while not sampler.stopping.is_set():
            now = sampler.clock()
            self._busy_since = now
            try:
                self._last = self._reader.read(now)
            except Exception as error:  # a fault of this program must show on its card, not end the sampling in silence
                row = dict(empty_row(self._index), state="error", reason="sampling failed: %r" % error)
                self._last = Sample(row, {})
            self._busy_since = None
            sampler.published()
            self._pause()

    def _pause(self) -> None:
        """Sleep to this GPU's next turn on a grid that all GPUs share."""
        interval = self._sampler.interval_s
        if self._last.row["state"] != "ok":
            interval = max(interval, self._sampler.retry_s)
        self._wake.wait(interval - (self._sampler.clock() - self._index * STAGGER_S) % interval)
        self._wake.clear()


class GpuSampler:
    """Samples the driver and all GPUs every ``interval_s`` seconds.

    Args:
        interval_s: seconds between two samples.
        start_ticks_of: start ticks of a pid in /proc, None when it is not there; called from several threads at once.
        load: returns the ``pynvml`` module, or one with its functions (``SIMULATED = True`` marks made-up figures).
        clock: monotonic seconds; the time base of ``sampled_t`` and of :meth:`wait_fresh`.
        hang_s, retry_s, slow_s: see HANG_S, RETRY_S and SLOW_S.
        version_file: where the kernel module tells its version.
    """

    def __init__(
        self,
        interval_s: float,
        start_ticks_of: StartTicksOf,
        load: Callable[[], Any] = _pynvml,
        clock: Clock = time.monotonic,
        *,
        hang_s: float = HANG_S,
        retry_s: float = RETRY_S,
        slow_s: float = SLOW_S,
        version_file: str = "/proc/driver/nvidia/version",
    ) -> None:
        self.interval_s = interval_s
        self.hang_s = hang_s
        self.retry_s = retry_s
        self.clock = clock
        self.stopping = threading.Event()
        self._start_ticks_of = start_ticks_of
        self._load = load
        self._slow_s = slow_s
        self._version_file = version_file
        self._driver: Dict[str, Any] = {"state": "unknown", "text": "", "simulated": False}
        self._driver.update(version=None, cuda=None)
        self._driver_since: Optional[float] = None
        self._gpus: List[_GpuThread] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="gpu-driver", daemon=True)

    def start(self) -> None:
        """Begin to sample; returns at once. To be called once."""
        self._thread.start()

    def stop(self) -> None:
        """End every thread that is not stuck in the driver; returns at once."""
        self.stopping.set()
        for gpu in self._gpus:
            gpu.poke()

    def snapshot(self) -> Dict[str, Any]:
        """Return the fields of a ``gpus`` event: {"driver": {...}, "gpus": [{...}]}. Never blocks; for any thread."""
        now = self.clock()
        driver = dict(self._driver)
        since = self._driver_since
        if since is not None and now - since > self.hang_s:
            driver.update(state="hung", text=nvml_words.driver_silence(now - since))
        return {"driver": driver, "gpus": [gpu.row(now) for gpu in self._gpus]}

    def memory_by_pid(self) -> Optional[Dict[int, Tuple[int, int]]]:
        """Return pid → (start_ticks, bytes over all GPUs) of pids that /proc confirms; None when NVML does not work.

        Memory is never reported free without evidence: a process that has ended counts until the driver no longer lists
        it, and a hung GPU with its last figures. Pids whose memory the driver does not tell are left out. Never blocks;
        for any thread.
        """
        if self._driver["state"] != "ok":
            return None
        sums: Dict[int, Tuple[int, int]] = {}
        for pid, start, size in (entry for gpu in self._gpus for entry in gpu.held()):
            before, total = sums.get(pid, (start, 0))
            if start >= before:
                # Should the pid have come to name another process between two samples, the later born one counts.
                sums[pid] = (start, size + (total if start == before else 0))
        return sums

    def wait_fresh(self, after_t: float, timeout_s: float) -> bool:
        """Sample now; return True once every working GPU has a sample begun after ``after_t`` (seconds of the clock).

        False when ``timeout_s`` seconds were not enough. A GPU that is lost, hung or in error is not waited for.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            for gpu in self._gpus:
                gpu.poke()
            while True:
                if self._is_fresh(after_t):
                    return True
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, _RECHECK_S))

    def published(self) -> None:
        """Tell those who wait that a row is new; called by the GPUs' threads."""
        with self._changed:
            self._changed.notify_all()

    def _is_fresh(self, after_t: float) -> bool:
        view = self.snapshot()
        if view["driver"]["state"] == "unknown":
            return False
        return all(row["state"] != "ok" or row["sampled_t"] > after_t for row in view["gpus"])

    def _run(self) -> None:
        while not self.stopping.is_set():
            self._driver_since = self.clock()
            try:
                works = self._begin()
            except Exception as error:  # whatever it is, it belongs on the panel
                works = False
                self._driver = dict(self._driver, state="error", text="the NVIDIA library cannot be used: %r" % error)
            self._driver_since = None
            self.published()
            if works:
                return
            self.stopping.wait(self.retry_s)

    def _begin(self) -> bool:
        """Start NVML and a thread a GPU; False, with the reason on the driver, when it does not start."""
        try:
            nvml = self._load()
        except ImportError as error:
            self._driver = dict(self._driver, state="error", text="pynvml cannot be loaded: %s" % error)
            return False
        calls = Calls(nvml)
        self._driver = driver = dict(self._driver, simulated=bool(getattr(nvml, "SIMULATED", False)))
        try:
            nvml.nvmlInit()
            count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            kernel, library = self._kernel_version(), _library_version(calls)
            state, text = nvml_words.driver_error(error.value, str(error), kernel, library)
            self._driver = dict(driver, state=state, text=text, version=kernel)
            return False
        text = "" if count else "the NVIDIA driver works and shows no GPU"
        version = text_of(calls("nvmlSystemGetDriverVersion"))
        readers = [GpuReader(nvml, index, self._start_ticks_of, self._slow_s) for index in range(count)]
        self._gpus = [_GpuThread(reader, index, self) for index, reader in enumerate(readers)]
        self._driver = dict(driver, state="ok", text=text, version=version, cuda=_cuda(calls))
        for gpu in self._gpus:
            gpu.start()
        return True

    def _kernel_version(self) -> Optional[str]:
        try:
            with open(self._version_file, encoding="utf-8", errors="replace") as file:
                return nvml_words.kernel_module_version(file.read())
        except OSError:
            return None


def _library_version(calls: Calls) -> Optional[str]:
    """Return the version of libnvidia-ml, which it tells even when it refuses to start; None when it is not there."""
    return nvml_words.library_driver_version(text_of(calls("nvmlSystemGetNVMLVersion")) or "")


def _cuda(calls: Calls) -> Optional[str]:
    """Return the newest CUDA that the driver runs, such as "12.4"."""
    version = calls("nvmlSystemGetCudaDriverVersion")
    return None if version is None else "%d.%d" % (version // 1000, version % 1000 // 10)
