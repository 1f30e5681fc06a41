"""HostState: everything known about one host, folded from the agent's events.

``fold(state, event)`` is pure: it returns a new frozen state and touches neither the old one nor the event, so a
state that a widget or a dialog holds can never change under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from console.agent import protocol
from console.agent.protocol import Identity


@dataclass(frozen=True, slots=True)
class Process:
    """One process as the agent last saw it. Sizes in bytes, ``cpu_percent`` of one core (8 busy threads: 800)."""

    pid: int
    start_ticks: int
    ppid: int
    pgid: int
    session: int
    uid: int
    user: str
    state: str
    threads: int
    cpu_percent: float | None
    """None until the process was read twice: no figure rather than a made-up one."""
    rss_bytes: int
    comm: str
    argv: tuple[str, ...]
    argv_cut: bool = False
    """True when ``argv`` is only the beginning: the ``detail`` request has the rest."""
    argv_digest: str = ""
    exe: str | None = None
    cgroup: str | None = None
    started_at: float = 0.0
    """Wall-clock seconds, for showing only: a clock step moves it, the identity does not."""
    kernel: bool = False
    """True for a kernel thread."""
    ours: bool = False
    """True for the agent, this console and what they were started from: never a target."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """Memory that NVML says a pid holds.

    ``start_ticks`` is None when /proc does not confirm the pid: such a one is never a target.
    """

    pid: int
    memory_bytes: int | None
    start_ticks: int | None
    note: str = ""
    """Why the pid is not confirmed, in plain words; empty when it is."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Every figure the driver refuses is None ("n/a"), never 0. ``state``: ok, lost, hung or error."""

    index: int
    state: str = "ok"
    reason: str = ""
    uuid: str | None = None
    name: str | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    utilisation_percent: int | None = None
    memory_utilisation_percent: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    clock_sm_mhz: int | None = None
    clock_memory_mhz: int | None = None
    ecc_uncorrected: int | None = None
    ecc_corrected: int | None = None
    throttle: tuple[str, ...] | None = None
    """Active reasons in plain words; None when the driver does not say, () when there is none."""
    pcie_rx_bytes_per_s: int | None = None
    pcie_tx_bytes_per_s: int | None = None
    mig: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None
    sampled_t: float = 0.0
    """Host's monotonic seconds of the sample."""


@dataclass(frozen=True, slots=True)
class GpuDriver:
    """The driver as a whole.

    ``state``: unknown (not sampled yet), ok, absent, mismatch, hung or error; ``text`` explains it.
    """

    state: str = "unknown"
    text: str = ""
    version: str | None = None
    cuda: str | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Disk:
    """One configured path. Sizes in bytes; ``error`` says why they are None."""

    path: str
    used_bytes: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Gauges:
    """The host's own figures. None is "n/a"; ``missing`` says why by name of the figure."""

    cores: int | None = None
    cpu_percent: float | None = None
    load: tuple[float, float, float] | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    swap_total_bytes: int | None = None
    net_rx_bytes_per_s: float | None = None
    net_tx_bytes_per_s: float | None = None
    disks: tuple[Disk, ...] = ()
    missing: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Pause:
    """A stopped process: since when and by whom. ``by`` is empty when it was not stopped through a console."""

    pid: int
    start_ticks: int
    since: float
    """Wall-clock seconds of the host; for a stop that is not ours, when it was first seen."""
    by: str = ""
    action_id: str = ""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something the operator must see, newest last. ``kind``: woke, fault."""

    kind: str
    text: str
    at: float
    """Wall-clock seconds of the host."""
    pid: int | None = None
    start_ticks: int | None = None


@dataclass(frozen=True, slots=True)
class Hello:
    """What the agent said about itself and its host when it started."""

    version: int
    hostname: str
    boot_id: str
    uid: int
    user: str
    python: str
    kernel: str
    clk_tck: int
    pid: int
    start_ticks: int
    can: Mapping[str, bool | str]
    """pidfd, nvml, psutil, cgroup2, systemd → True, or a sentence that says why not."""
    audit_path: str = ""


MAX_ALERTS = 200


@dataclass(frozen=True, slots=True)
class HostState:
    """A frozen snapshot of one host."""

    hello: Hello | None = None
    processes: Mapping[int, Process] = field(default_factory=lambda: MappingProxyType({}))
    """By pid; at most one process holds a pid at a time."""
    complete: bool = False
    """False until the first full list has arrived whole."""
    uptime_s: float = 0.0
    """Host's uptime at the last ``procs`` event: age of a process = uptime_s - start_ticks / clk_tck."""
    wall: float = 0.0
    """Host's wall clock at the last ``procs`` event."""
    driver: GpuDriver = GpuDriver()
    gpus: tuple[Gpu, ...] = ()
    gauges: Gauges = field(default_factory=Gauges)
    pauses: Mapping[int, Pause] = field(default_factory=lambda: MappingProxyType({}))
    alerts: tuple[Alert, ...] = ()
    faults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Parts of the agent that do not work now → why."""
    seq: int = 0
    t: float = 0.0
    """Host's monotonic seconds of the last event."""
    procs_t: float = 0.0
    """Host's monotonic seconds of the last ``procs`` event."""

    def identity(self, process: Process) -> Identity:
        """Return the identity of ``process`` on this host."""
        return (self.hello.boot_id if self.hello else "", process.pid, process.start_ticks)

    def age_s(self, process: Process) -> float:
        """Return how long ``process`` had lived at the last ``procs`` event, in seconds."""
        ticks = self.hello.clk_tck if self.hello else 100
        return max(0.0, self.uptime_s - process.start_ticks / ticks)

    def pause_of(self, process: Process) -> Pause | None:
        """Return the pause of exactly this process, if it is stopped."""
        pause = self.pauses.get(process.pid)
        return pause if pause and pause.start_ticks == process.start_ticks else None

    def gpu_bytes(self) -> dict[int, int]:
        """Return pid → GPU memory over all GPUs, for pids that /proc confirms as the process listed here."""
        held: dict[int, int] = {}
        for gpu in self.gpus:
            for holder in gpu.processes or ():
                process = self.processes.get(holder.pid)
                if process and holder.start_ticks == process.start_ticks and holder.memory_bytes is not None:
                    held[holder.pid] = held.get(holder.pid, 0) + holder.memory_bytes
        return held


def fold(state: HostState, event: Mapping[str, Any]) -> HostState:
    """Return the state after ``event``. Events of an unknown name change only ``seq`` and ``t``."""
    handler = _HANDLERS.get(event.get("ev", ""))
    state = replace(state, seq=event.get("seq", state.seq), t=event.get("t", state.t))
    return handler(state, event) if handler else state


def _known(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    names = _FIELD_NAMES[cls]
    return {name: value for name, value in values.items() if name in names}


def _process(row: Mapping[str, Any]) -> Process:
    values = _known(Process, row)
    values["argv"] = tuple(values["argv"])
    return Process(**values)


def _on_hello(state: HostState, event: Mapping[str, Any]) -> HostState:
    values = _known(Hello, event)
    values["can"] = MappingProxyType(dict(values.get("can", {})))
    # A new conversation starts from nothing: what an earlier agent saw may be of another boot.
    return HostState(hello=Hello(**values), seq=state.seq, t=state.t)


def _on_procs(state: HostState, event: Mapping[str, Any]) -> HostState:
    processes: dict[int, Process] = {} if event.get("reset") else dict(state.processes)
    for pid in event.get("gone", ()):
        processes.pop(pid, None)
    for row in event.get("added", ()):
        processes[row["pid"]] = _process(row)
    for pid, change in event.get("changed", ()):
        old = processes.get(pid)
        if old is not None:
            values = _known(Process, change)
            if "argv" in values:
                values["argv"] = tuple(values["argv"])
            processes[pid] = replace(old, **values)
    return replace(
        state,
        processes=MappingProxyType(processes),
        complete=bool(event.get("complete", state.complete and not event.get("reset"))),
        uptime_s=event.get("uptime_s", state.uptime_s),
        wall=event.get("wall", state.wall),
        procs_t=event.get("t", state.procs_t),
    )


def _gpu(row: Mapping[str, Any]) -> Gpu:
    values = _known(Gpu, row)
    if values.get("throttle") is not None:
        values["throttle"] = tuple(values["throttle"])
    if values.get("processes") is not None:
        values["processes"] = tuple(GpuProcess(**_known(GpuProcess, p)) for p in values["processes"])
    return Gpu(**values)


def _on_gpus(state: HostState, event: Mapping[str, Any]) -> HostState:
    driver = GpuDriver(**_known(GpuDriver, event.get("driver", {})))
    return replace(state, driver=driver, gpus=tuple(_gpu(row) for row in event.get("gpus", ())))


def _on_gauges(state: HostState, event: Mapping[str, Any]) -> HostState:
    values = _known(Gauges, event)
    values["disks"] = tuple(Disk(**_known(Disk, d)) for d in values.get("disks", ()))
    if values.get("load") is not None:
        values["load"] = tuple(values["load"])
    values["missing"] = MappingProxyType(dict(values.get("missing", {})))
    return replace(state, gauges=Gauges(**values))


def _on_pauses(state: HostState, event: Mapping[str, Any]) -> HostState:
    pauses = {row["pid"]: Pause(**_known(Pause, row)) for row in event.get("pauses", ())}
    return replace(state, pauses=MappingProxyType(pauses))


def _on_alert(state: HostState, event: Mapping[str, Any]) -> HostState:
    return replace(state, alerts=(*state.alerts, Alert(**_known(Alert, event)))[-MAX_ALERTS:])


def _on_fault(state: HostState, event: Mapping[str, Any]) -> HostState:
    faults = dict(state.faults)
    if event.get("text"):
        faults[event["part"]] = event["text"]
    else:
        faults.pop(event["part"], None)
    return replace(state, faults=MappingProxyType(faults))


_FIELD_NAMES: dict[type, frozenset[str]] = {
    cls: frozenset(f.name for f in fields(cls))
    for cls in (Process, GpuProcess, Gpu, GpuDriver, Disk, Gauges, Pause, Alert, Hello)
}

_HANDLERS = {
    protocol.HELLO: _on_hello,
    protocol.PROCS: _on_procs,
    protocol.GPUS: _on_gpus,
    protocol.GAUGES: _on_gauges,
    protocol.PAUSES: _on_pauses,
    protocol.ALERT: _on_alert,
    protocol.FAULT: _on_fault,
}
