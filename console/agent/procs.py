"""The process table: a full list once, then what changed, at a cost that 2,000 processes do not make heavy.

How it stays cheap: files of /proc stay open (``pread`` costs half of open-read-close), and a single-threaded sleeper
whose ``schedstat`` did not move has not run since, so nothing it does by itself can have changed. What others can
change about it without its running (parent, process group, cgroup, reclaimed memory) is read when a process ended, and
in a slow rotation.
"""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import resource
import time
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from console.agent import masking, procfs
from console.agent.ancestry import Ancestry, Key, Kin

ROTATION = 60
"""An unchanged process is read in full at least every so many samples."""

RESTLESS_SAMPLES = 5
"""For so many samples after its birth a process' arguments and uid are read each time: fork, setuid and exec come
apart."""

ARGV_EVERY = 4
"""The arguments of a process that ran are compared within so many samples: a title can change without exec."""

CPU_WINDOW_S = 0.15
"""CPU is counted in ticks of 10 ms: over a shorter time, as after an action, the figure would be noise."""

_QUIET = frozenset("SI")
_ENDED = ("Z", "X")
_STAT_BYTES = 1024


def argv_digest(raw: bytes, secret: bytes) -> str:
    """Return a digest of a raw argument area, keyed so that masked secrets cannot be guessed from it."""
    return hashlib.blake2b(raw, digest_size=12, key=secret).hexdigest()


class _Entry:
    """What is kept of one process between samples."""

    __slots__ = (
        "argv_raw",
        "argv_unread",
        "cpu_since",
        "cpu_ticks",
        "pid",
        "quiet",
        "row",
        "sched",
        "sched_fd",
        "seen",
        "stack",
        "start_ticks",
        "stat_fd",
        "stat_raw",
    )

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.start_ticks = 0
        self.stat_fd = -1
        self.sched_fd = -1
        self.sched = b""
        self.stat_raw = b""
        self.argv_raw: Optional[bytes] = None
        self.argv_unread = False
        self.cpu_since = 0.0
        self.quiet = False
        self.cpu_ticks = 0
        self.stack = 0
        self.seen = 0
        self.row: Dict[str, Any] = {}

    def close(self) -> None:
        for fd in (self.stat_fd, self.sched_fd):
            if fd >= 0:
                os.close(fd)
        self.stat_fd = self.sched_fd = -1


class ProcessTable:
    """All processes of this host, sampled on demand; not thread-safe, one thread owns it."""

    def __init__(self, secret: bytes, argv_max: int = 4096, ours: Callable[[], Set[Key]] = set) -> None:
        self._secret = secret
        self._argv_max = argv_max
        self._ours = ours
        self._entries: Dict[int, _Entry] = {}
        self._users: Dict[int, str] = {}
        self._samples = 0
        self._now = 0.0
        self._cpu_from = 0.0
        self._cpu_due = False
        self._just_ended: Set[int] = set()
        self._ours_now: Optional[Set[Key]] = None
        self._uptime_s = procfs.uptime_s()
        self._boot_time = procfs.boot_time()
        self._fd_limit = _raise_fd_limit()
        self._sched_works = _schedstat_works()
        self.ancestry = Ancestry()
        self.live: Dict[int, Kin] = {}

    def row(self, key: Key) -> Optional[Dict[str, Any]]:
        """Return the last row of ``key``, or None when it is not in the table."""
        entry = self._entries.get(key[0])
        return entry.row if entry is not None and entry.start_ticks == key[1] else None

    def sample(
        self, on_added: Optional[Callable[[List[Dict[str, Any]]], None]] = None, chunk: int = 400
    ) -> Dict[str, Any]:
        """Read the host and return what changed: ``{added, changed, gone}`` as in the ``procs`` event.

        ``on_added`` takes new rows ``chunk`` by chunk as they are read; what it took is not returned.
        """
        self._now = time.monotonic()
        self._cpu_due = self._now - self._cpu_from >= CPU_WINDOW_S
        self._ours_now = None
        present = procfs.list_pids()
        entries = self._entries
        gone = list(entries.keys() - set(present))
        added: List[Dict[str, Any]] = []
        changed: List[Tuple[int, Dict[str, Any]]] = []
        moved = bool(gone)
        # Also those that ended during the last sample, when some of their children had been passed already.
        orphaned = self._just_ended.union(gone)
        self._just_ended = set()
        for pid in gone:
            entries.pop(pid).close()
        turn = self._samples % ROTATION
        for pid in present:
            entry = entries.get(pid)
            if entry is not None:
                if self._idle(entry, turn, orphaned):
                    continue
                stat = self._read_stat(entry)
                if stat is not None and stat.start_ticks == entry.start_ticks:
                    change = self._changes(entry, stat)
                    if change:
                        changed.append((pid, change))
                        if change.get("state", "") in _ENDED:
                            self._just_ended.add(pid)
                        moved = moved or not _KINSHIP.isdisjoint(change)
                    continue
                # The pid is free again or already somebody else's: the old process is gone either way.
                entries.pop(pid).close()
                gone.append(pid)
                self._just_ended.add(pid)
                moved = True
            row = self._add(pid)
            if row is not None:
                added.append(row)
                moved = True
                if on_added is not None and len(added) >= chunk:
                    on_added(added)
                    added = []
        if moved:
            self.live = {
                pid: Kin(pid, e.start_ticks, e.row["ppid"], e.row["pgid"], e.row["session"])
                for pid, e in entries.items()
            }
            self.ancestry.observe(self.live)
        self._samples += 1
        if self._cpu_due:
            self._cpu_from = self._now
        return {"added": added, "changed": changed, "gone": gone}

    def rows(self) -> List[Dict[str, Any]]:
        """Return every row of the last sample."""
        return [entry.row for entry in self._entries.values()]

    def close(self) -> None:
        """Close every file of /proc."""
        for entry in self._entries.values():
            entry.close()
        self._entries.clear()

    def _idle(self, entry: _Entry, turn: int, orphaned: Set[int]) -> bool:
        """Return whether ``entry`` surely has not run since the last sample and nobody else changed it."""
        if not entry.quiet:
            return False
        try:
            sched = os.pread(entry.sched_fd, 64, 0)
        except OSError:
            return False
        if sched != entry.sched:
            entry.sched = sched
            entry.argv_unread = True
            return False
        if entry.pid % ROTATION == turn or (entry.argv_unread and self._argv_turn(entry)):
            return False
        return not orphaned or entry.row["ppid"] not in orphaned

    def _read_stat(self, entry: _Entry) -> Optional[procfs.Stat]:
        if entry.stat_fd < 0:
            return procfs.read_stat(entry.pid)
        try:
            data = os.pread(entry.stat_fd, _STAT_BYTES, 0)
            entry.stat_raw = data
            return procfs.parse_stat(data)
        except (OSError, ValueError):
            return None

    def _add(self, pid: int) -> Optional[Dict[str, Any]]:
        entry = _Entry(pid)
        self._open(entry)
        stat = self._read_stat(entry)
        credentials = procfs.read_credentials(pid) if stat else None
        raw = procfs.read_cmdline(pid) if credentials else None
        if stat is None or credentials is None or raw is None:
            entry.close()
            return None
        entry.start_ticks = stat.start_ticks
        entry.cpu_ticks = stat.cpu_ticks
        entry.cpu_since = self._now
        entry.stack = stat.stack
        entry.argv_raw = raw
        if not self._samples and self._uptime_s - stat.start_ticks / procfs.CLK_TCK > RESTLESS_SAMPLES:
            entry.seen = RESTLESS_SAMPLES
        entry.row = {
            "pid": pid,
            "start_ticks": stat.start_ticks,
            "uid": credentials.uid,
            "user": self._user(credentials.uid),
            # No figure rather than a made-up one until there are two readings.
            "cpu_percent": None,
            "exe": procfs.read_link(pid, "exe"),
            "cgroup": procfs.read_cgroup(pid),
            "started_at": round(self._boot_time + stat.start_ticks / procfs.CLK_TCK, 2),
            "kernel": stat.kernel,
            "ours": self._is_ours((pid, stat.start_ticks)),
        }
        entry.row.update(_volatile(stat))
        entry.row.update(self._argv_fields(raw))
        self._entries[pid] = entry
        return entry.row

    def _is_ours(self, key: Key) -> bool:
        if self._ours_now is None:
            # Once a sample: it reads every ancestor, which for each new process would be half of its cost.
            self._ours_now = self._ours()
        return key in self._ours_now

    def _open(self, entry: _Entry) -> None:
        if 2 * len(self._entries) + 64 > self._fd_limit:
            return
        try:
            entry.stat_fd = os.open("/proc/%d/stat" % entry.pid, os.O_RDONLY | os.O_CLOEXEC)
            if self._sched_works:
                entry.sched_fd = os.open("/proc/%d/schedstat" % entry.pid, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._fd_limit = 0

    def _changes(self, entry: _Entry, stat: procfs.Stat) -> Dict[str, Any]:
        row, fresh = entry.row, _volatile(stat)
        if self._cpu_due:
            fresh["cpu_percent"] = self._cpu_percent(entry, stat)
        restless = entry.seen < RESTLESS_SAMPLES
        executed = stat.stack != entry.stack or fresh["comm"] != row["comm"]
        # What surely did not run cannot have changed its arguments or its user; only the others take their turn.
        ran = entry.argv_unread or entry.sched_fd < 0 or stat.threads != 1
        if restless or executed or (ran and self._argv_turn(entry)):
            entry.argv_unread = False
            fresh.update(self._identity_changes(entry, stat, executed))
        if self._samples % ROTATION == entry.pid % ROTATION:
            fresh["cgroup"] = procfs.read_cgroup(entry.pid)
        entry.stack = stat.stack
        entry.seen += 1
        change = {name: value for name, value in fresh.items() if row.get(name) != value}
        if change:
            # A new dict: another thread may be reading the old row.
            entry.row = {**row, **change}
        entry.quiet = (
            entry.sched_fd >= 0
            and stat.threads == 1
            and stat.state in _QUIET
            and entry.seen >= RESTLESS_SAMPLES
            and entry.row["cpu_percent"] == 0.0
        )
        return change

    def _argv_turn(self, entry: _Entry) -> bool:
        return (self._samples + entry.pid) % ARGV_EVERY == 0

    def _cpu_percent(self, entry: _Entry, stat: procfs.Stat) -> float:
        """Return the percentage of one core since the last window began, or since the process was first seen."""
        elapsed = self._now - max(entry.cpu_since, self._cpu_from)
        ticks = stat.cpu_ticks - entry.cpu_ticks
        entry.cpu_ticks, entry.cpu_since = stat.cpu_ticks, self._now
        return round(max(0.0, 100.0 * ticks / procfs.CLK_TCK / elapsed), 1)

    def _identity_changes(self, entry: _Entry, stat: procfs.Stat, executed: bool) -> Dict[str, Any]:
        fresh: Dict[str, Any] = {}
        raw = procfs.read_cmdline(entry.pid)
        if raw is not None and raw != entry.argv_raw and stat.state not in "ZX":
            entry.argv_raw = raw
            fresh.update(self._argv_fields(raw))
            executed = True
        credentials = procfs.read_credentials(entry.pid)
        if credentials is not None and credentials.uid != entry.row["uid"]:
            fresh["uid"] = credentials.uid
            fresh["user"] = self._user(credentials.uid)
        if executed or entry.seen < RESTLESS_SAMPLES:
            fresh["exe"] = procfs.read_link(entry.pid, "exe")
            fresh["cgroup"] = procfs.read_cgroup(entry.pid)
        return fresh

    def _argv_fields(self, raw: bytes) -> Dict[str, Any]:
        argv = masking.mask_argv(procfs.split_cmdline(raw))
        cut = False
        if self._argv_max and sum(map(len, argv)) + len(argv) > self._argv_max:
            argv, cut = cut_argv(argv, self._argv_max), True
        return {"argv": argv, "argv_cut": cut, "argv_digest": argv_digest(raw, self._secret)}

    def _user(self, uid: int) -> str:
        name = self._users.get(uid)
        if name is None:
            name = self._users[uid] = user_name(uid)
        return name


_KINSHIP = frozenset(("ppid", "pgid", "session"))


def _volatile(stat: procfs.Stat) -> Dict[str, Any]:
    return {
        "ppid": stat.ppid,
        "pgid": stat.pgid,
        "session": stat.session,
        "state": stat.state,
        "threads": stat.threads,
        "rss_bytes": stat.rss_pages * procfs.PAGE_SIZE,
        "comm": stat.comm,
    }


def cut_argv(argv: List[str], limit: int) -> List[str]:
    """Return the beginning of ``argv`` that holds at most ``limit`` characters; the last argument may be cut."""
    kept: List[str] = []
    for arg in argv:
        if limit <= 0:
            break
        kept.append(arg[:limit])
        limit -= len(arg) + 1
    return kept


def user_name(uid: int) -> str:
    """Return the name of ``uid``, or the number as text when it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OSError):
        return str(uid)


def _raise_fd_limit() -> int:
    """Raise the soft limit of open files as far as allowed (at most 65,536) and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
        except (OSError, ValueError):
            return soft
    return soft


def _schedstat_works() -> bool:
    """Return whether this kernel counts run time in schedstat (CONFIG_SCHED_INFO): ours must have some by now."""
    try:
        with open("/proc/self/schedstat", "rb") as file:
            parts = file.read().split()
        return len(parts) == 3 and int(parts[0]) > 0 and int(parts[2]) > 0
    except (OSError, ValueError):
        return False
