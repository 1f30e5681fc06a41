"""Who was whose child: remembered between samples, because a re-parented process no longer says where it came from."""

from __future__ import annotations

from collections import deque
from typing import Deque, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

Key = Tuple[int, int]
"""(pid, start_ticks) on this host and boot."""


class Kin(NamedTuple):
    """What the choice of a set needs to know of one live process."""

    pid: int
    start_ticks: int
    ppid: int
    pgid: int
    session: int

    @property
    def key(self) -> Key:
        """The process without the boot, which is the same for all of one agent."""
        return (self.pid, self.start_ticks)


class Ancestry:
    """Every parent a live process was ever seen under, and which sessions and groups were led by whom.

    Each action works on a :meth:`copy`, so the sampler's readings and an action's own never overwrite each other.
    """

    def __init__(self) -> None:
        self._parents: Dict[Key, Set[Key]] = {}
        self._sessions: Dict[int, Key] = {}
        self._groups: Dict[int, Key] = {}

    def copy(self) -> "Ancestry":
        """Return an independent copy; ``observe`` replaces its tables whole, so another thread may copy at any time."""
        twin = Ancestry()
        twin._parents = {key: set(parents) for key, parents in self._parents.items()}
        twin._sessions = dict(self._sessions)
        twin._groups = dict(self._groups)
        return twin

    def observe(self, live: Dict[int, Kin]) -> None:
        """Remember the relations of one complete reading, and forget what no live process can need any more."""
        parents: Dict[Key, Set[Key]] = {}
        for kin in live.values():
            known = self._parents.get(kin.key, set())
            parent = live.get(kin.ppid)
            # A parent is older than its child; a younger one is another process under a reused pid.
            if (
                parent is not None
                and kin.ppid > 1
                and parent.start_ticks <= kin.start_ticks
                and parent.key not in known
            ):
                known = known | {parent.key}
            parents[kin.key] = known
        sessions = _leaders(self._sessions, {kin.session for kin in live.values()}, live)
        groups = _leaders(self._groups, {kin.pgid for kin in live.values()}, live)
        wanted: List[Key] = [key for known in parents.values() for key in known]
        wanted += list(sessions.values()) + list(groups.values())
        while wanted:
            key = wanted.pop()
            if key not in parents:
                parents[key] = self._parents.get(key, set())
                wanted.extend(parents[key])
        self._parents, self._sessions, self._groups = parents, sessions, groups

    def all_parents(self) -> Iterable[Tuple[Key, Set[Key]]]:
        """Return every remembered process, ended ones that matter too, with every parent it was ever seen under."""
        return self._parents.items()

    def leader_of_session(self, number: int) -> Optional[Key]:
        """Return who leads or led session ``number``, or None when its leader ended unseen."""
        return self._sessions.get(number)

    def leader_of_group(self, number: int) -> Optional[Key]:
        """Return who leads or led process group ``number``, or None when its leader ended unseen."""
        return self._groups.get(number)


def _leaders(before: Dict[int, Key], numbers: Set[int], live: Dict[int, Kin]) -> Dict[int, Key]:
    """Return number → leader for every session or group that still has a member.

    A number that nobody is in any more is forgotten: from then on it may come to mean another session.
    """
    led: Dict[int, Key] = {}
    for number in numbers:
        leader = live.get(number)
        if leader is not None:
            led[number] = leader.key
        elif number in before:
            led[number] = before[number]
    return led


def choose_set(roots: Iterable[Key], live: Dict[int, Kin], ancestry: Ancestry) -> Dict[Key, str]:
    """Return the members of the set of ``roots`` among ``live`` → why each belongs to it; to a fixed point.

    Members are the roots, descendants of members (as seen now or ever before), and every process of a session or
    process group *led by a member*. Never "the root's session" when the root does not lead it: a job shares its
    shell's session with everything else the operator does there. ``ancestry`` must have observed ``live``.
    """
    below: Dict[Key, List[Tuple[Key, str]]] = {}
    for child, parents in ancestry.all_parents():
        for parent in parents:
            now = live.get(child[0])
            is_child = now is not None and now.start_ticks == child[1] and now.ppid == parent[0]
            below.setdefault(parent, []).append((child, "child of %d" if is_child else "was a child of %d"))
    for kin in live.values():
        for leader, reason in (
            (ancestry.leader_of_session(kin.session), "in the session led by %d"),
            (ancestry.leader_of_group(kin.pgid), "in the process group led by %d"),
        ):
            if leader is not None and leader != kin.key:
                below.setdefault(leader, []).append((kin.key, reason))
    why: Dict[Key, str] = dict.fromkeys(roots, "target")
    queue: Deque[Key] = deque(why)
    while queue:
        member = queue.popleft()
        for key, reason in below.get(member, ()):
            if key not in why and key[0] > 1:
                why[key] = reason % member[0]
                queue.append(key)
    # Ended processes were only steps on the way to those that live.
    return {kin.key: why[kin.key] for kin in live.values() if kin.key in why}
