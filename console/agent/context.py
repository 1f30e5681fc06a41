"""What plans and actions need of the running agent, in one place."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Protocol, Set, Tuple

from console.agent import gpu_holders, masking, pidfds, procfs, procs
from console.agent.ancestry import Ancestry, Key
from console.agent.auditfile import AuditFile
from console.agent.pauses import Pauses

ARGV_KEPT = 4096
"""Characters of an argument vector in plans, events and audit records; ``detail`` has the whole."""


class GpuMemory(Protocol):
    """The part of the GPU sampler that plans and actions read."""

    def memory_by_pid(self) -> Optional[Dict[int, Tuple[int, int]]]:
        """Return pid → (start_ticks, bytes) for confirmed pids, or None when NVML does not work."""

    def wait_fresh(self, after_t: float, timeout_s: float) -> bool:
        """Wait for a sample newer than the monotonic ``after_t``."""

    def snapshot(self) -> Dict[str, Any]:
        """Return the last sample of driver and GPUs."""


class Context:
    """One agent's facts and services. Everything here may be used from any thread."""

    def __init__(self, audit: AuditFile, emit: Callable[[Dict[str, Any]], None]) -> None:
        self.boot_id = procfs.boot_id()
        self.secret = os.urandom(16)
        self.audit = audit
        self.emit = emit
        self.closing = threading.Event()
        self.operator = ""
        self.argv_max = ARGV_KEPT
        self.no_pidfd = pidfds.unsupported()
        self.gpus: Optional[GpuMemory] = None
        self.ancestry: Callable[[], Ancestry] = Ancestry
        self.pauses = Pauses(self.boot_id, lambda: self.audit_tail(2000))
        self._chain: Set[Key] = set()
        self._started_from: Set[Key] = set(procfs.ancestors(os.getpid()))
        self._users: Dict[int, str] = {}

    def start(self, operator: str, argv_max: int, console_chain: Set[Key]) -> None:
        """Take what the console said about itself in ``start``."""
        self.operator = operator
        self.argv_max = argv_max
        self._chain = console_chain

    def protected(self) -> Set[Key]:
        """Return the agent, its ancestors, and a console on the same machine with its ancestors: never targets."""
        return self._started_from | self._chain | set(procfs.ancestors(os.getpid()))

    def audit_tail(self, limit: int) -> List[Dict[str, Any]]:
        """Return the last audit records; [] when they cannot be read."""
        try:
            return self.audit.tail(limit)[0]
        except OSError:
            return []

    def may_signal(self, credentials: procfs.Credentials) -> bool:
        """Return whether kill(2) would allow us to signal a process with these uids."""
        allowed = (credentials.uid, credentials.saved_uid)
        return _has_cap_kill() or os.geteuid() in allowed or os.getuid() in allowed

    def gpu_memory(self) -> Optional[Dict[Key, int]]:
        """Return key → bytes of GPU memory for confirmed processes, or None when NVML does not work here."""
        held = self.gpus.memory_by_pid() if self.gpus is not None else None
        return None if held is None else {(pid, start): size for pid, (start, size) in held.items()}

    def listed_by_nvml(self) -> Set[Key]:
        """Return every confirmed process that NVML lists, those without a memory figure too."""
        rows = self.gpus.snapshot()["gpus"] if self.gpus is not None else []
        return {
            (process["pid"], process["start_ticks"])
            for gpu in rows
            for process in gpu.get("processes") or ()
            if process["start_ticks"] is not None
        }

    def device_holders(self, pids: List[int]) -> Set[int]:
        """Return which of ``pids`` hold an NVIDIA device open, whether or not NVML lists them."""
        return set(gpu_holders.holders_of_nvidia_devices(pids)) if os.path.exists("/dev/nvidiactl") else set()

    def user(self, uid: int) -> str:
        """Return the name of ``uid``."""
        if uid not in self._users:
            self._users[uid] = procs.user_name(uid)
        return self._users[uid]

    def describe(
        self, key: Key, why: str = "", depth: int = 0, sends: Tuple[str, ...] = ()
    ) -> Optional[Dict[str, Any]]:
        """Return ``key`` as plans show it, freshly read; None when it has ended."""
        stat = procfs.read_stat(key[0])
        credentials = procfs.read_credentials(key[0])
        raw = procfs.read_cmdline(key[0])
        if stat is None or credentials is None or raw is None or stat.start_ticks != key[1]:
            return None
        memory = self.gpu_memory()
        return {
            "pid": key[0],
            "start_ticks": key[1],
            "boot_id": self.boot_id,
            "ppid": stat.ppid,
            "uid": credentials.uid,
            "user": self.user(credentials.uid),
            "argv": self.shown_argv(raw),
            "comm": stat.comm,
            "argv_digest": procs.argv_digest(raw, self.secret),
            "state": stat.state,
            "age_s": round(max(0.0, procfs.uptime_s() - key[1] / procfs.CLK_TCK), 1),
            "rss_bytes": stat.rss_pages * procfs.PAGE_SIZE,
            "gpu_bytes": memory.get(key) if memory is not None else None,
            "why": why,
            "depth": depth,
            "sends": list(sends),
        }

    def shown_argv(self, raw: bytes) -> List[str]:
        """Return a raw argument area as it may leave the host: masked, and cut to what the console asked for."""
        argv = masking.mask_argv(procfs.split_cmdline(raw))
        if self.argv_max and sum(map(len, argv)) + len(argv) > self.argv_max:
            return procs.cut_argv(argv, self.argv_max)
        return argv

    def record(self, record: Dict[str, Any]) -> str:
        """Append an audit record with who and when; return "" or why it is not on the disk."""
        kept = dict(record)
        for name in ("targets", "left"):
            if name in kept:
                kept[name] = [{**row, "argv": procs.cut_argv(row["argv"], ARGV_KEPT)} for row in kept[name]]
        kept.update(
            at=round(time.time(), 3), boot_id=self.boot_id, ssh_user=self.user(os.getuid()), operator=self.operator
        )
        return self.audit.append(kept)


def _has_cap_kill() -> bool:
    try:
        with open("/proc/self/status", "rb") as file:
            for line in file:
                if line.startswith(b"CapEff:"):
                    return bool(int(line.split()[1], 16) & (1 << 5))
    except (OSError, ValueError):
        pass
    return os.geteuid() == 0
