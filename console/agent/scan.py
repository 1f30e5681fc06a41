"""A fresh reading of who is whose kin, for plans and actions; independent of the sampler's rhythm."""

from __future__ import annotations

from typing import Dict, Optional

from console.agent import procfs
from console.agent.ancestry import Kin


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
                stat = procfs.read_stat(pid)
                if stat is None:
                    self.vanished += 1
                    continue
                known = Kin(pid, stat.start_ticks, stat.ppid, stat.pgid, stat.session)
            live[pid] = known
        self.live = live
        return live


def _last_pid() -> Optional[int]:
    """Return the pid that the kernel gave out last, or None where it does not say."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[4])
    except (OSError, ValueError, IndexError):
        return None
