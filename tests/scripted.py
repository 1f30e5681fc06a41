"""A scripted host for tests of screens: a state that a builder makes, and a link that answers from a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from console.agent.protocol import Identity
from console.host.errors import LinkError, RequestError
from console.host.link import UP, LinkStatus
from console.host.state import (
    Alert,
    Disk,
    Gauges,
    Gpu,
    GpuDriver,
    GpuProcess,
    Hello,
    HostState,
    Pause,
    Process,
    fold,
)

BOOT_ID = "6f1c2a54-9f0e-4b7e-9c39-1a2b3c4d5e6f"
CLK_TCK = 100
UPTIME_S = 400_000.0
WALL = 1_764_542_467.0
"""2025-11-30 22:41:07 UTC."""

GIB = 1 << 30
MIB = 1 << 20

SERVER_PID = 98231
CLIENT_PID = 121338
PAUSED_PID = 131072
AGENT_PID = 140007


def process(pid: int, ppid: int, argv: str | tuple[str, ...], *, age_s: float = 3600.0, **changes: Any) -> Process:
    """Return a process of root, sleeping, ``age_s`` old; ``changes`` are fields of :class:`Process`."""
    words = tuple(argv.split()) if isinstance(argv, str) else argv
    values: dict[str, Any] = {
        "pid": pid,
        "start_ticks": round((UPTIME_S - age_s) * CLK_TCK),
        "ppid": ppid,
        "pgid": pid,
        "session": pid,
        "uid": 0,
        "user": "root",
        "state": "S",
        "threads": 1,
        "cpu_percent": 0.0,
        "rss_bytes": 12 * MIB,
        "comm": (words[0].rsplit("/", 1)[-1] if words else "kworker")[:15],
        "argv": words,
        "argv_digest": f"digest-{pid}",
        "started_at": WALL - age_s,
    }
    return Process(**{**values, **changes})


def identity_of(state: HostState, pid: int) -> Identity:
    """Return the identity of the process that holds ``pid`` in ``state``."""
    return state.identity(state.processes[pid])


def with_processes(state: HostState, *processes: Process) -> HostState:
    """Return ``state`` with these processes in place of its own."""
    return replace(state, processes=MappingProxyType({p.pid: p for p in processes}), complete=True)


def without(state: HostState, *pids: int) -> HostState:
    """Return ``state`` after the processes ``pids`` ended."""
    return with_processes(state, *(p for p in state.processes.values() if p.pid not in pids))


def changed(state: HostState, pid: int, **changes: Any) -> HostState:
    """Return ``state`` with other fields of one process."""
    return with_processes(state, *(replace(p, **changes) if p.pid == pid else p for p in state.processes.values()))


def sample_hello() -> Hello:
    """Return the hello of host gpu1, whose agent runs as root."""
    return Hello(
        version=1,
        hostname="gpu1",
        boot_id=BOOT_ID,
        uid=0,
        user="root",
        python="3.10.12",
        kernel="6.8.0-45-generic",
        clk_tck=CLK_TCK,
        pid=AGENT_PID,
        start_ticks=round((UPTIME_S - 60) * CLK_TCK),
        can=MappingProxyType({"pidfd": True, "nvml": True, "psutil": True, "cgroup2": True, "systemd": True}),
        audit_path="/home/ops/.local/state/eagle3-console/audit.jsonl",
    )


def sample_processes() -> tuple[Process, ...]:
    """Return a host at work: an SGLang server with 8 ranks, a client with helpers, a paused extraction, the system."""
    server = "python -m sglang.launch_server --model-path moonshotai/Kimi-K2.5 --tp 8 --port 8000"
    client = "python3 run_inference.py --partition all --output-dir /data/responses/B1_glaive --concurrency 150"
    extract = "python3 -m pipeline extract --config B3.toml --shard-tokens 65536"
    day, hours = 93_600.0, 11_520.0
    ranks = [
        process(
            98402 + rank,
            SERVER_PID,
            (f"sglang::scheduler_TP{rank}",),
            age_s=day - 30,
            cpu_percent=98.0 - rank,
            rss_bytes=5 * GIB + rank * 40 * MIB,
            threads=142,
            session=SERVER_PID,
            pgid=SERVER_PID,
        )
        for rank in range(8)
    ]
    return (
        process(1, 0, "/sbin/init", age_s=UPTIME_S, rss_bytes=13 * MIB),
        process(2, 0, (), age_s=UPTIME_S, comm="kthreadd", kernel=True, rss_bytes=0),
        process(77, 2, (), age_s=UPTIME_S, comm="kworker/0:1-events (x)", kernel=True, rss_bytes=0),
        process(812, 1, "/usr/sbin/sshd -D", age_s=UPTIME_S - 20),
        process(1304, 1, "/usr/bin/containerd", age_s=UPTIME_S - 25, cpu_percent=0.7, rss_bytes=58 * MIB, threads=31),
        process(SERVER_PID, 1, server, age_s=day, cpu_percent=12.0, rss_bytes=3 * GIB, threads=88),
        *ranks,
        process(98411, SERVER_PID, ("sglang::detokenizer",), age_s=day - 30, cpu_percent=8.0, rss_bytes=900 * MIB),
        process(CLIENT_PID, 1, client, age_s=hours, cpu_percent=34.0, rss_bytes=1200 * MIB, threads=12),
        process(
            121340,
            CLIENT_PID,
            ("python3", "-c", "from multiprocessing.resource_tracker import main;main(6)"),
            age_s=hours - 1,
            rss_bytes=11 * MIB,
        ),
        process(
            121341,
            CLIENT_PID,
            ("python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=7)"),
            age_s=hours - 2,
            cpu_percent=2.5,
            rss_bytes=90 * MIB,
        ),
        process(
            PAUSED_PID,
            1,
            extract,
            age_s=7300,
            state="T",
            rss_bytes=40 * GIB,
            threads=64,
            uid=1000,
            user="mona",
            cpu_percent=0.0,
        ),
        process(139998, 812, "sshd: root@notty", age_s=62, ours=True),
        process(
            AGENT_PID,
            139998,
            ("python3", "-c", "import agent  # run_inference"),
            age_s=60,
            cpu_percent=1.4,
            rss_bytes=31 * MIB,
            ours=True,
        ),
    )


def sample_gpus() -> tuple[Gpu, ...]:
    """Return 8 GPUs, each held by one rank; GPU 5 also by the paused extraction."""
    total = round(95.6 * GIB)
    gpus = []
    for index in range(8):
        holders = [GpuProcess(98402 + index, round(74.2 * GIB), round((UPTIME_S - 93_570) * CLK_TCK))]
        if index == 5:
            holders.append(GpuProcess(PAUSED_PID, 11 * GIB, round((UPTIME_S - 7300) * CLK_TCK)))
        gpus.append(
            Gpu(
                index=index,
                uuid=f"GPU-{index:08d}-aaaa",
                name="NVIDIA RTX PRO 6000 Blackwell",
                memory_used_bytes=round(74.6 * GIB) + (11 * GIB if index == 5 else 0),
                memory_total_bytes=total,
                utilisation_percent=97 - index,
                memory_utilisation_percent=61,
                temperature_c=71 - index + (18 if index == 5 else 0),
                power_w=412.0 - 3 * index,
                power_limit_w=600.0,
                clock_sm_mhz=2332,
                clock_memory_mhz=14001,
                ecc_uncorrected=0,
                ecc_corrected=0,
                throttle=(),
                pcie_rx_bytes_per_s=120_000_000,
                pcie_tx_bytes_per_s=40_000_000,
                mig=False,
                processes=tuple(holders),
            )
        )
    return tuple(gpus)


def sample_gauges() -> Gauges:
    """Return the gauges of a host with 192 cores and 1 TiB."""
    return Gauges(
        cores=192,
        cpu_percent=11.3,
        load=(21.4, 20.9, 18.2),
        memory_used_bytes=412 * GIB,
        memory_total_bytes=1024 * GIB,
        swap_used_bytes=0,
        swap_total_bytes=8 * GIB,
        net_rx_bytes_per_s=18_400_000.0,
        net_tx_bytes_per_s=2_100_000.0,
        disks=(
            Disk("/", 210 * GIB, 450 * GIB, 240 * GIB),
            Disk("/data", 4000 * GIB, 7100 * GIB, 3100 * GIB),
        ),
    )


def sample_state() -> HostState:
    """Return the frozen state of a host at work: everything is fine but one paused process."""
    processes = sample_processes()
    paused = next(p for p in processes if p.pid == PAUSED_PID)
    return HostState(
        hello=sample_hello(),
        processes=MappingProxyType({p.pid: p for p in processes}),
        complete=True,
        uptime_s=UPTIME_S,
        wall=WALL,
        driver=GpuDriver("ok", "", "580.95.05", "13.0"),
        gpus=sample_gpus(),
        gauges=sample_gauges(),
        pauses=MappingProxyType(
            {
                PAUSED_PID: Pause(
                    PAUSED_PID, paused.start_ticks, WALL - 245, by="ops@laptop", action_id="0011223344556677"
                )
            }
        ),
        seq=120,
        t=UPTIME_S,
        procs_t=UPTIME_S,
    )


def failing_state() -> HostState:
    """Return a host where everything that can fail does so at once."""
    state = sample_state()
    gpus = list(state.gpus)
    gpus[3] = Gpu(
        index=3, state="lost", reason="GPU 3 fell off the bus; reboot the host to get it back", name=gpus[3].name
    )
    gpus[4] = Gpu(index=4, state="hung", reason="no answer from the driver for 42 s", name=gpus[4].name)
    gpus[6] = replace(
        gpus[6], memory_used_bytes=None, utilisation_percent=None, power_w=None, temperature_c=None, processes=None
    )
    gpus[7] = replace(
        gpus[7],
        processes=(GpuProcess(4242, 60 * GIB, None, "not in this PID namespace"),),
        throttle=("hot: software limit",),
    )
    return replace(
        state,
        gpus=tuple(gpus),
        gauges=Gauges(
            load=(250.1, 201.0, 180.4),
            cores=192,
            missing=MappingProxyType(
                {"memory": "psutil is not installed on the host", "cpu": "psutil is not installed on the host"}
            ),
            disks=(Disk("/data", error="no such path"),),
        ),
        alerts=(
            Alert(
                "woke", f"process {PAUSED_PID} was paused and runs again: nobody resumed it through a console", WALL - 4
            ),
            Alert("fault", "the process list took 2.4 s", WALL - 2),
        ),
        faults=MappingProxyType({"gauges": "disk figures stopped: /data does not answer"}),
    )


Answer = Callable[..., Mapping[str, Any]]


@dataclass
class ScriptedLink:
    """A link without a host. ``answers`` maps an op to a function of the request's arguments; it may raise.

    ``requests`` records every request as ``(op, arguments)``.
    """

    state: HostState = field(default_factory=sample_state)
    status: LinkStatus = field(
        default_factory=lambda: LinkStatus(UP, "Connected to gpu1", rtt_ms=12.0, since=time.monotonic())
    )
    answers: dict[str, Answer] = field(default_factory=dict)
    age_s: float = 0.4
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    retries: int = 0
    closed: bool = False

    def __post_init__(self) -> None:
        self._listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self._status_listeners: list[Callable[[LinkStatus], None]] = []

    def data_age_s(self) -> float:
        """Return the scripted age of the process list, in seconds."""
        return self.age_s

    def listen(self, callback: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Call ``callback`` for every event of :meth:`emit`."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    def on_status(self, callback: Callable[[LinkStatus], None]) -> Callable[[], None]:
        """Call ``callback`` for every :meth:`set_status`."""
        self._status_listeners.append(callback)
        return lambda: self._status_listeners.remove(callback)

    async def request(self, op: str, *, deadline_s: float = 10.0, **arguments: Any) -> dict[str, Any]:
        """Answer from ``answers``; an op that is not there is a RequestError, a link that is not up a LinkError."""
        self.requests.append((op, arguments))
        if self.status.phase != UP:
            raise LinkError(self.status.text or "the link is down")
        if op not in self.answers:
            raise RequestError("bad_request", f"the script has no answer to {op}")
        answer = self.answers[op](**arguments)
        if hasattr(answer, "__await__"):
            answer = await answer
        return dict(answer)

    async def run(self) -> None:
        """Return at once: nothing is read."""

    async def wait_up(self, deadline_s: float) -> None:
        """Return when the status is up, else raise LinkError."""
        if self.status.phase != UP:
            raise LinkError(self.status.text or "the link is down")

    def retry(self) -> None:
        """Count the request to try again."""
        self.retries += 1

    async def close(self) -> None:
        """Remember that the console closed the link."""
        self.closed = True

    def emit(self, event: Mapping[str, Any]) -> None:
        """Fold ``event`` into the state and tell the listeners, as the real link does."""
        self.state = fold(self.state, event)
        for callback in tuple(self._listeners):
            callback(event)

    def become(self, state: HostState) -> None:
        """Replace the whole state and tell the listeners that new processes came in."""
        self.state = state
        for callback in tuple(self._listeners):
            callback({"ev": "procs"})

    def set_status(self, **changes: Any) -> None:
        """Change fields of the status and tell the listeners."""
        self.status = replace(self.status, since=time.monotonic(), **changes)
        for callback in tuple(self._status_listeners):
            callback(self.status)
