"""Everything about one process, read once on request."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional

from console.agent import masking, pidfds, procfs
from console.agent.context import Context
from console.agent.protocol import Identity

MAX_THREADS = 500
_DEVICE = re.compile(r"/dev/nvidia[0-9a-z-]*\Z")


class NotThere(Exception):
    """The process has ended or its pid is another process now; the text says which."""


def read_detail(context: Context, identity: Identity) -> Dict[str, Any]:
    """Return the answer to a ``detail`` request; what the agent may not read is None.

    Raises:
        NotThere: this is not the process that was asked for.
    """
    boot, pid, start = identity
    stat, credentials, raw = procfs.read_stat(pid), procfs.read_credentials(pid), procfs.read_cmdline(pid)
    if stat is None or credentials is None or raw is None:
        raise NotThere("process %d has ended" % pid)
    if boot != context.boot_id or stat.start_ticks != start:
        raise NotThere("pid %d is another process now: the one asked for has ended" % pid)
    argv = procfs.split_cmdline(raw)
    masked = masking.mask_argv(argv)
    env_names, env_note = _environment_names(pid)
    fds = _open_files(pid)
    return {
        "pid": pid,
        "start_ticks": start,
        "boot_id": boot,
        "ppid": stat.ppid,
        "pgid": stat.pgid,
        "session": stat.session,
        "tty": _tty_name(stat.tty),
        "uid": credentials.uid,
        "euid": credentials.euid,
        "user": context.user(credentials.uid),
        "state": pidfds.group_state((pid, start)),
        "comm": stat.comm,
        "threads": stat.threads,
        "argv": masked,
        "argv_masked": sum(1 for shown, real in zip(masked, argv) if shown != real),
        "exe": procfs.read_link(pid, "exe"),
        "cwd": procfs.read_link(pid, "cwd"),
        "cgroup": procfs.read_cgroup(pid),
        "started_at": round(procfs.boot_time() + start / procfs.CLK_TCK, 2),
        "age_s": round(max(0.0, procfs.uptime_s() - start / procfs.CLK_TCK), 1),
        "rss_bytes": stat.rss_pages * procfs.PAGE_SIZE,
        "cpu_s": round(stat.cpu_ticks / procfs.CLK_TCK, 2),
        "gpu": _gpu_memory(context, pid, start),
        "nvidia_devices": None if fds is None else sorted({path for path in fds if _DEVICE.match(path)}),
        "open_files": None if fds is None else len(fds),
        "env_names": env_names,
        "env_note": env_note,
        "threads_list": _threads(pid),
        "tracer_pid": credentials.tracer_pid or None,
        "pause": context.pauses.of((pid, start)),
        "io": _io(pid),
        **_switches(pid),
    }


def _environment_names(pid: int) -> Any:
    """Return the names in the environment, never a value, and a note when they cannot be read."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            entries = file.read(4 * 1024 * 1024).split(b"\0")
    except PermissionError:
        return None, "only the owner of the process or root may read its environment"
    except OSError:
        return None, "the environment cannot be read"
    names = {entry.split(b"=", 1)[0].decode("utf-8", "surrogateescape") for entry in entries if b"=" in entry}
    return sorted(names), ""


def _open_files(pid: int) -> Optional[List[str]]:
    folder = "/proc/%d/fd" % pid
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    paths = []
    for name in names:
        try:
            paths.append(os.readlink("%s/%s" % (folder, name)))
        except OSError:
            continue
    return paths


def _gpu_memory(context: Context, pid: int, start: int) -> Optional[List[Dict[str, Any]]]:
    if context.gpus is None:
        return None
    return [
        {"gpu": gpu["index"], "bytes": row["memory_bytes"]}
        for gpu in context.gpus.snapshot()["gpus"]
        for row in gpu.get("processes") or ()
        if row["pid"] == pid and row["start_ticks"] == start
    ]


def _threads(pid: int) -> Optional[List[Dict[str, Any]]]:
    try:
        tids = sorted(int(name) for name in os.listdir("/proc/%d/task" % pid))
    except OSError:
        return None
    rows = []
    for tid in tids[:MAX_THREADS]:
        stat = procfs.read_stat_of_thread(pid, tid)
        if stat is not None:
            rows.append({"tid": tid, "comm": stat.comm, "state": stat.state, "cpu_ticks": stat.cpu_ticks})
    return rows


def _io(pid: int) -> Optional[Dict[str, int]]:
    found = _numbers("/proc/%d/io" % pid, {"read_bytes": "read_bytes", "write_bytes": "write_bytes"})
    return found or None


def _switches(pid: int) -> Dict[str, int]:
    names = {"voluntary_ctxt_switches": "voluntary_switches", "nonvoluntary_ctxt_switches": "nonvoluntary_switches"}
    return _numbers("/proc/%d/status" % pid, names)


def _numbers(path: str, names: Dict[str, str]) -> Dict[str, int]:
    found: Dict[str, int] = {}
    try:
        with open(path, "rb") as file:
            for line in file:
                name, _, value = line.partition(b":")
                wanted = names.get(name.decode("ascii", "replace"))
                if wanted:
                    found[wanted] = int(value)
    except (OSError, ValueError):
        return found
    return found


def _tty_name(number: int) -> Optional[str]:
    """Return the terminal that tty_nr of stat names (proc(5): minor in bits 0-7 and 20-31, major in 8-15)."""
    if not number:
        return None
    major, minor = (number >> 8) & 0xFF, (number & 0xFF) | ((number >> 12) & 0xFFF00)
    if 136 <= major <= 143:
        return "pts/%d" % (minor + (major - 136) * 256)
    return "tty%d" % minor if major == 4 else "%d:%d" % (major, minor)
