"""Processes of the demo that cannot outlive it, not even stopped ones."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

JOB_FOLDER = Path(__file__).parent


def module(name: str, *arguments: str) -> list[str]:
    """Return the argument vector that runs a module of ours; -P: whatever lies in the current folder."""
    return [sys.executable, "-P", "-m", name, *arguments]


def job(script: str, *arguments: str) -> list[str]:
    """Return the argument vector of a job's script as one types it: short, for the process tree.

    It runs in `JOB_FOLDER` and under `job_path`; the processes that it starts inherit both.
    """
    return [Path(sys.executable).name, script, *arguments]


def job_path() -> str:
    """Return the PATH on which `job` finds this Python."""
    return os.pathsep.join(filter(None, (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))))


def start_bound(argv: Sequence[str], **popen: Any) -> subprocess.Popen[bytes]:
    """Start a process which the kernel kills when the caller's main thread ends.

    Call it from a process with one thread: Python runs between fork and exec.

    Raises:
        OSError: it could not be started.
    """
    # The callers have one thread, so nothing can hold a lock that the child would wait for.
    return subprocess.Popen(argv, preexec_fn=_die_with(os.getpid()), **popen)  # noqa: PLW1509


def adopt_orphans() -> None:
    """Make this process the parent of whatever its descendants leave behind, so that nothing gets out of its reach."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> None:
    """Take the exit statuses of ended children, adopted ones too, so that none stays a zombie."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def kill_descendants() -> int:
    """Send SIGKILL to every living descendant of this process and return how many there were."""
    parents = {pid: found for pid in _pids() if (found := _stat(pid)) is not None}
    killed = 0
    for pid, (_, state, start_ticks) in parents.items():
        if state in "ZX" or not _descends(pid, os.getpid(), parents):
            continue
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            # The number may have changed hands between the scan and the open.
            again = _stat(pid)
            if again is not None and again[2] == start_ticks:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
                killed += 1
        except ProcessLookupError:
            pass
        finally:
            os.close(fd)
    return killed


def _die_with(parent: int) -> Callable[[], None]:
    prctl = ctypes.CDLL(None).prctl

    def before_exec() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _stat(pid: int) -> tuple[int, str, int] | None:
    """Return parent, state and start ticks; None when the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name in field 2 may hold spaces and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    return int(fields[1]), fields[0].decode(), int(fields[19])


def _descends(pid: int, ancestor: int, parents: dict[int, tuple[int, str, int]]) -> bool:
    seen = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid][0]
        if pid == ancestor:
            return True
    return False
