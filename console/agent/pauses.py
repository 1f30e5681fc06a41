"""Who stopped what and since when, and the alarm when a stopped process wakes by itself."""

from __future__ import annotations

import threading
from typing import Any, Callable, Collection, Dict, Iterable, List, Optional, Tuple

from console.agent import procfs, protocol
from console.agent.ancestry import Key

RECALL_S = 10.0
"""For so long after a stop was seen the audit file is asked who did it."""

_STOPPED = frozenset("Tt")
_WAKING = frozenset((protocol.RESUME, protocol.STOP, protocol.KILL))


class Pauses:
    """The stopped processes of this host. Thread-safe."""

    def __init__(self, boot_id: str, records: Callable[[], List[Dict[str, Any]]]) -> None:
        self._boot_id = boot_id
        self._records = records
        self._lock = threading.Lock()
        self._by_key: Dict[Key, Dict[str, Any]] = {}
        self._expected: Dict[Key, Tuple[str, str]] = {}
        self._told: Dict[Key, Dict[str, Any]] = {}

    def expect(self, keys: Iterable[Key], by: str, action_id: str) -> None:
        """Know who stops ``keys`` before the first of them is seen stopped; :meth:`begin` follows."""
        with self._lock:
            self._expected = dict.fromkeys(keys, (by, action_id))

    def begin(self, keys: Iterable[Key], by: str, action_id: str, wall: float) -> None:
        """Remember that ``keys`` were stopped and verified through an action."""
        with self._lock:
            self._expected = {}
            for key in keys:
                self._by_key[key] = _pause(key, wall, by, action_id)

    def end(self, keys: Iterable[Key]) -> None:
        """Forget ``keys`` before they are woken or killed on purpose, so that this raises no alarm."""
        with self._lock:
            for key in keys:
                self._by_key.pop(key, None)

    def of(self, key: Key) -> Optional[Dict[str, Any]]:
        """Return the pause of ``key``, or None."""
        with self._lock:
            return self._by_key.get(key)

    def tracked(self) -> List[Key]:
        """Return the processes that are known as stopped."""
        with self._lock:
            return list(self._by_key)

    def woken(self) -> bool:
        """Return whether a process that was paused through a console is not stopped any more, read now."""
        with self._lock:
            ours = [key for key, pause in self._by_key.items() if pause["by"]]
        for pid, start in ours:
            stat = procfs.read_stat(pid)
            if stat is None or stat.start_ticks != start or stat.state not in _STOPPED:
                return True
        return False

    def check(
        self, states: Dict[Key, Tuple[str, str]], wall: float, tracked: Optional[Collection[Key]] = None
    ) -> Tuple[Optional[List[Dict[str, Any]]], List[Dict[str, Any]]]:
        """Return the new list (None: as it was told last) and alerts.

        ``states``: key → (state, command) of every stopped process and of those tracked that still live.
        ``tracked``: what was tracked when the reading of ``states`` began. What an action stopped meanwhile may have
        been read as running, which is no wake-up; None for a reading that began after everything.
        """
        stopped = [key for key, (state, _) in states.items() if state in _STOPPED]
        with self._lock:
            woken = [
                (key, pause)
                for key, pause in self._by_key.items()
                if states.get(key, ("", ""))[0] not in _STOPPED
                and (tracked is None or key in tracked)
                and key not in self._expected
            ]
            unknown = [key for key in stopped if self._unexplained(key, wall)]
        records = self._records() if woken or unknown else []
        with self._lock:
            for key, _ in woken:
                self._by_key.pop(key, None)
            for key in unknown:
                if self._unexplained(key, wall):
                    since = self._by_key[key]["since"] if key in self._by_key else wall
                    recalled = _recalled(records, key, self._boot_id)
                    self._by_key[key] = recalled or _pause(key, since, *self._expected.get(key, ("", "")))
            current = list(self._by_key.values()) if self._by_key != self._told else None
            self._told = dict(self._by_key)
        alerts = [
            alert for key, pause in woken for alert in _alert(records, key, pause, states.get(key), wall, self._boot_id)
        ]
        return current, alerts

    def _unexplained(self, key: Key, wall: float) -> bool:
        """Return whether who stopped ``key`` is still to be found out.

        A result reaches the audit file after the stop was seen, so the file is asked more than once.
        """
        pause = self._by_key.get(key)
        return pause is None or (not pause["by"] and wall - pause["since"] < RECALL_S)


def _recalled(records: List[Dict[str, Any]], key: Key, boot_id: str) -> Optional[Dict[str, Any]]:
    """Return the pause that another agent recorded for ``key`` and nobody ended since."""
    last: Optional[Dict[str, Any]] = None
    for record in records:
        if record.get("record") == "result" and record.get("phase") != "refused" and _names(record, key, boot_id):
            last = record
    if last is None or last.get("action") != protocol.PAUSE:
        return None
    return _pause(key, _at(last), str(last.get("operator", "")), str(last.get("action_id", "")))


def _alert(
    records: List[Dict[str, Any]],
    key: Key,
    pause: Dict[str, Any],
    now: Optional[Tuple[str, str]],
    wall: float,
    boot_id: str,
) -> List[Dict[str, Any]]:
    if not pause["by"]:
        # Stopped by a shell, a debugger or a profiler: their business, and no promise of ours was broken.
        return []
    for record in records:
        if record.get("action") in _WAKING and _at(record) >= pause["since"] and _names(record, key, boot_id):
            return []
    command = now[1] if now else "its command is gone with it"
    if now is None or now[0] in "ZX":
        text = "%d ended while it was paused by %s (%s)" % (key[0], pause["by"], command)
    else:
        text = "%d runs again by itself, paused by %s and resumed by no console (%s)" % (key[0], pause["by"], command)
    return [{"kind": "woke", "text": text, "at": wall, "pid": key[0], "start_ticks": key[1]}]


def _pause(key: Key, since: float, by: str, action_id: str) -> Dict[str, Any]:
    return {"pid": key[0], "start_ticks": key[1], "since": since, "by": by, "action_id": action_id}


def _names(record: Dict[str, Any], key: Key, boot_id: str) -> bool:
    if record.get("boot_id") != boot_id:
        return False
    targets = record.get("targets")
    rows = [row for row in targets if isinstance(row, dict)] if isinstance(targets, list) else []
    return any(row.get("pid") == key[0] and row.get("start_ticks") == key[1] for row in rows)


def _at(record: Dict[str, Any]) -> float:
    """Return when a record was written; anybody can put a line into the file, so it may be no number."""
    moment = record.get("at")
    return float(moment) if isinstance(moment, (int, float)) else 0.0
