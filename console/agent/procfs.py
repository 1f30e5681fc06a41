"""Reading one process from /proc: stat, uid, argument vector, exe, cgroup; None for a process that is gone.

Formats: proc(5). ``comm`` may hold spaces and parentheses, so stat is split after the last ``)``.
"""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional, Tuple

CLK_TCK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

_PF_KTHREAD = 0x00200000
_VANISHED = (FileNotFoundError, ProcessLookupError)


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that are used; ticks of 1/CLK_TCK s, ``rss`` in pages."""

    pid: int
    comm: str
    state: str
    ppid: int
    pgid: int
    session: int
    tty: int
    kernel: bool
    cpu_ticks: int
    threads: int
    start_ticks: int
    rss_pages: int
    stack: int
    """Field 28, start of the stack: exec moves it. 0 where the reader may not see it."""


def parse_stat(data: bytes) -> Stat:
    """Return the fields of one stat line.

    Raises:
        ValueError: the line is not a stat line (cut, or another format).
    """
    opening, closing = data.index(b"("), data.rindex(b")")
    rest = data[closing + 2 :].split()
    if len(rest) < 26:
        raise ValueError("stat has %d fields after comm, at least 26 are needed" % len(rest))
    return Stat(
        pid=int(data[:opening]),
        comm=data[opening + 1 : closing].decode("utf-8", "surrogateescape"),
        state=rest[0].decode("ascii"),
        ppid=int(rest[1]),
        pgid=int(rest[2]),
        session=int(rest[3]),
        tty=int(rest[4]),
        kernel=bool(int(rest[6]) & _PF_KTHREAD),
        cpu_ticks=int(rest[11]) + int(rest[12]),
        threads=int(rest[17]),
        start_ticks=int(rest[19]),
        rss_pages=int(rest[21]),
        stack=int(rest[25]),
    )


def read_stat(pid: int) -> Optional[Stat]:
    """Return the stat of ``pid`` now, or None when there is no such process."""
    data = _read("/proc/%d/stat" % pid)
    try:
        return parse_stat(data) if data else None
    except ValueError:
        return None


def read_stat_of_thread(pid: int, tid: int) -> Optional[Stat]:
    """Return the stat of one thread, or None when it is gone."""
    data = _read("/proc/%d/task/%d/stat" % (pid, tid))
    try:
        return parse_stat(data) if data else None
    except ValueError:
        return None


def list_pids() -> List[int]:
    """Return the pids of /proc now."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class Credentials(NamedTuple):
    """The ``Uid:`` line of /proc/PID/status and the tracer."""

    uid: int
    euid: int
    saved_uid: int
    tracer_pid: int


def read_credentials(pid: int) -> Optional[Credentials]:
    """Return the uids of ``pid``, or None when it is gone."""
    data = _read("/proc/%d/status" % pid)
    if not data:
        return None
    uids = _status_line(data, b"Uid:").split()
    tracer = _status_line(data, b"TracerPid:").split()
    if len(uids) != 4:
        return None
    return Credentials(int(uids[0]), int(uids[1]), int(uids[2]), int(tracer[0]) if tracer else 0)


def _status_line(data: bytes, name: bytes) -> bytes:
    """Return what follows ``name`` on its line; looked for with its line break, since the first line is free text."""
    start = data.find(b"\n" + name)
    return data[start + 1 + len(name) : data.find(b"\n", start + 1)] if start >= 0 else b""


def read_cmdline(pid: int) -> Optional[bytes]:
    """Return the raw argument area of ``pid``; b"" for kernel threads and zombies, None when it is gone."""
    return _read("/proc/%d/cmdline" % pid)


def split_cmdline(raw: bytes) -> List[str]:
    """Return the argument vector in a raw argument area, undecodable bytes as lone surrogates (PEP 383)."""
    if not raw:
        return []
    if raw.endswith(b"\0"):
        raw = raw[:-1]
    return [part.decode("utf-8", "surrogateescape") for part in raw.split(b"\0")]


def read_link(pid: int, name: str) -> Optional[str]:
    """Return where /proc/PID/``name`` points (exe, cwd), or None when it is gone or not ours to read."""
    try:
        return os.readlink("/proc/%d/%s" % (pid, name))
    except OSError:
        return None


def read_cgroup(pid: int) -> Optional[str]:
    """Return the cgroup path: of v2 when it says more than ``/``, else of v1's named or first hierarchy."""
    data = _read("/proc/%d/cgroup" % pid)
    return parse_cgroup(data) if data else None


def parse_cgroup(data: bytes) -> Optional[str]:
    """Return the path that /proc/PID/cgroup gives; see :func:`read_cgroup`."""
    paths: Dict[str, str] = {}
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        parts = line.split(":", 2)
        if len(parts) == 3:
            paths["v2" if parts[0] == "0" else parts[1] or "v1"] = parts[2]
    for name in ("v2", "name=systemd", "pids", "memory"):
        if paths.get(name, "/") != "/":
            return paths[name]
    return next(iter(paths.values()), None)


def boot_id() -> str:
    """Return the id of this boot; "" where the kernel does not give one."""
    return (_read("/proc/sys/kernel/random/boot_id") or b"").decode("ascii", "replace").strip()


def boot_time() -> float:
    """Return when the host booted, wall-clock seconds; for showing only."""
    for line in (_read("/proc/stat") or b"").split(b"\n"):
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return 0.0


def uptime_s() -> float:
    """Return seconds since boot, the clock that start_ticks counts."""
    data = _read("/proc/uptime")
    return float(data.split()[0]) if data else 0.0


def ancestors(pid: int) -> List[Tuple[int, int]]:
    """Return (pid, start_ticks) of ``pid`` and of every ancestor up to, and without, pid 1."""
    chain: List[Tuple[int, int]] = []
    while pid > 1 and len(chain) < 1000:
        stat = read_stat(pid)
        if stat is None:
            break
        chain.append((pid, stat.start_ticks))
        pid = stat.ppid
    return chain


def _read(path: str) -> Optional[bytes]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except _VANISHED:
        return None
    except OSError:
        return b""
    try:
        chunks: List[bytes] = []
        while True:
            chunk = os.read(fd, 65536)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
    except _VANISHED:
        return None
    except OSError:
        return b""
    finally:
        os.close(fd)
