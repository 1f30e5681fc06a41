"""A fresh reading of who is whose kin, for plans and actions; independent of the sampler's rhythm."""

from __future__ import annotations

import os
from typing import Dict, Optional

from console.agent import procfs
from console.agent.ancestry import Kin

_STAT_BYTES = 1024
_START_TICKS = 19
"""Field 22 of stat, counted from the one behind comm."""


class Scan:
    """The live processes as of the last :meth:`refresh`."""

    def __init__(self) -> None:
        self.live: Dict[int, Kin] = {}
        self.vanished = 0
        """How many pids of the last reading, new to it, were gone before they could be read."""
        self._last_pid: Optional[int] = None

    def refresh(self) -> Dict[int, Kin]:
        """Read the host again and return pid → kin.

        Between two readings only pids that were not there before are read, unless the kernel's pid counter went
        backwards (it wrapped, or was set): then any number may have changed hands and everything is read.
        """
        last = _last_pid()
        whole = self._last_pid is None or last is None or last < self._last_pid
        self._last_pid = last
        live: Dict[int, Kin] = {}
        self.vanished = 0
        for pid in procfs.list_pids():
            known = None if whole else self.live.get(pid)
            if known is None:
                known = _read_kin(pid)
                if known is None:
                    self.vanished += 1
                    continue
            live[pid] = known
        self.live = live
        return live


def _read_kin(pid: int) -> Optional[Kin]:
    """Return the kin of ``pid``, or None when it is gone; an action waits for thousands of these.

    The kernel writes a stat line whole, so one read has it; only the fields that are used are split off.
    """
    try:
        fd = os.open("/proc/%d/stat" % pid, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(fd, _STAT_BYTES)
        finally:
            os.close(fd)
        fields = data[data.rindex(b")") + 2 :].split(None, _START_TICKS + 1)
        return Kin(pid, int(fields[_START_TICKS]), int(fields[1]), int(fields[2]), int(fields[3]))
    except (OSError, ValueError, IndexError):
        return None


def _last_pid() -> Optional[int]:
    """Return the pid that the kernel gave out last, or None where it does not say."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, ValueError, IndexError):
        return None
