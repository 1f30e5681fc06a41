"""One process held by a pidfd: whatever happens to its number, this handle never comes to mean another process."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import List, Optional

from console.agent import procfs
from console.agent.ancestry import Key
from console.agent.procs import argv_digest

_DEAD_STATES = frozenset("ZXx")

_PROCESS_GROUP = 4
"""PIDFD_SIGNAL_PROCESS_GROUP of linux/pidfd.h, Linux 6.9."""


class Ended(Exception):
    """The process had ended when it was to be opened."""


def unsupported() -> str:
    """Return why pidfds do not work on this host, or "" when they do."""
    if not hasattr(os, "pidfd_open") or not hasattr(signal, "pidfd_send_signal"):
        return "this Python has no os.pidfd_open (3.9 or newer is needed)"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return "the kernel refuses pidfd_open (%s); Linux 5.3 or newer is needed" % (error.strerror or error)
    return ""


class Handle:
    """A pidfd with the key that was verified on it.

    Raises:
        Ended: there is no such process.
        OSError: it cannot be opened for another reason (too many open files).
    """

    def __init__(self, pid: int) -> None:
        try:
            self.fd = os.pidfd_open(pid)
        except ProcessLookupError:
            raise Ended from None
        self.pid = pid
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    def ended(self) -> bool:
        """Return whether every thread has ended (a zombie has; a process whose main thread alone ended has not)."""
        return self.fd < 0 or bool(self._poll.poll(0))

    def send(self, number: int) -> None:
        """Send a signal.

        Raises:
            ProcessLookupError: it has ended and was reaped.
            PermissionError: it is not ours to signal.
        """
        signal.pidfd_send_signal(self.fd, signal.Signals(number))

    def send_to_group(self, number: int) -> None:
        """Send a signal to the process group that is led by this process, or was before it ended.

        The kernel does that to all at once, while no one of them can fork. Nothing happens when it leads no group, and
        on kernels that cannot do it.
        """
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.fd, signal.Signals(number), None, _PROCESS_GROUP)

    def close(self) -> None:
        """Let go of the process."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def differences(handle: Handle, key: Key, uid: Optional[int], digest: Optional[str], secret: bytes) -> List[str]:
    """Return in words how the process behind ``handle`` differs from what the operator was shown; [] when it does not.

    Reads after the pidfd was opened: exec keeps pid and start and changes the arguments, and a number can be reused.

    Raises:
        Ended: the process ended meanwhile.
    """
    stat = procfs.read_stat(handle.pid)
    credentials = procfs.read_credentials(handle.pid)
    raw = procfs.read_cmdline(handle.pid)
    if stat is None or credentials is None or raw is None:
        raise Ended
    found: List[str] = []
    if stat.start_ticks != key[1]:
        return ["pid %d is another process now (start %d, not %d)" % (handle.pid, stat.start_ticks, key[1])]
    if stat.state in _DEAD_STATES and handle.ended():
        raise Ended
    if uid is not None and credentials.uid != uid:
        found.append("uid of %d changed: %d, not %d" % (handle.pid, credentials.uid, uid))
    if digest is not None and argv_digest(raw, secret) != digest:
        found.append("argv of %d changed: another program runs in it now" % handle.pid)
    return found


def group_state(key: Key) -> str:
    """Return the state over all threads: "T" only when every thread is stopped, "gone" without a process.

    With threads in different states the first that is not stopped is returned.
    """
    stat = procfs.read_stat(key[0])
    if stat is None or stat.start_ticks != key[1]:
        return "gone"
    if stat.state not in "TtZ" or stat.threads <= 1:
        return stat.state
    state = stat.state
    for tid in _threads(key[0]):
        thread = procfs.read_stat_of_thread(key[0], tid)
        if thread is None or thread.state in _DEAD_STATES:
            continue
        if thread.state not in "Tt":
            return thread.state
        state = thread.state if state == "Z" else state
    return state


def _threads(pid: int) -> List[int]:
    try:
        return [int(name) for name in os.listdir("/proc/%d/task" % pid)]
    except OSError:
        return []
