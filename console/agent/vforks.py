"""A parent in vfork stands still in the kernel until its child reaches its exec: so long it cannot be stopped.

``subprocess``, ``posix_spawn`` and many shells start programs that way. Stopping the child before its exec would hold
the parent in D for as long as the pause lasts.
"""

from __future__ import annotations

import os
from typing import List

from console.agent import procfs

_WAITS_IN = frozenset((b"wait_for_vfork_done", b"kernel_clone", b"_do_fork", b"do_fork"))


def waits_for_exec(pid: int) -> bool:
    """Return whether a thread of ``pid`` waits for the exec of a child, as far as the kernel says where it waits."""
    try:
        threads = [int(name) for name in os.listdir("/proc/%d/task" % pid)]
    except OSError:
        return False
    for tid in threads:
        stat = procfs.read_stat_of_thread(pid, tid)
        if stat is not None and stat.state == "D" and _waits_in(pid, tid) in _WAITS_IN:
            return True
    return False


def before_exec(parent: int, children: List[int]) -> List[int]:
    """Return which of ``children`` may not have reached their exec: those that still have the parent's arguments."""
    arguments = procfs.read_cmdline(parent)
    return [pid for pid in children if arguments and procfs.read_cmdline(pid) == arguments]


def _waits_in(pid: int, tid: int) -> bytes:
    try:
        with open("/proc/%d/task/%d/wchan" % (pid, tid), "rb") as file:
            # Compilers add to the names of functions that they split: kernel_clone.part.0
            return file.read().split(b".")[0].strip()
    except OSError:
        return b""
