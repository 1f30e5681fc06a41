"""The choice of a set: everything that belongs to the target, and nothing else ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.agent.ancestry import Ancestry, Key, Kin, choose_set

Live = dict[int, Kin]


def host(*kin: tuple[int, int, int, int, int]) -> Live:
    """Return live processes from (pid, start_ticks, ppid, pgid, session)."""
    return {row[0]: Kin(*row) for row in kin}


def observed(*readings: Live) -> Ancestry:
    ancestry = Ancestry()
    for live in readings:
        ancestry.observe(live)
    return ancestry


@st.composite
def histories(draw: st.DrawFn) -> list[Live]:
    """A host through time under the kernel's rules: fork, setsid, setpgid, death, re-parenting, reused pids."""
    clock = 10
    live: Live = {1: Kin(1, 0, 0, 1, 1)}
    readings = []
    for _ in range(draw(st.integers(1, 25))):
        others = sorted(pid for pid in live if pid != 1)
        what = draw(st.sampled_from(["fork", "fork", "fork", "setsid", "setpgid", "die", "look"]))
        if what == "fork" or not others:
            taken = set(live) | {kin.pgid for kin in live.values()} | {kin.session for kin in live.values()}
            free = [pid for pid in range(2, 14) if pid not in taken]
            if free:
                clock += 1
                parent = live[draw(st.sampled_from(sorted(live)))]
                pid = draw(st.sampled_from(free))
                live[pid] = Kin(pid, clock, parent.pid, parent.pgid, parent.session)
        elif what == "setsid":
            kin = live[draw(st.sampled_from(others))]
            if kin.pid not in {other.pgid for other in live.values()}:
                live[kin.pid] = kin._replace(pgid=kin.pid, session=kin.pid)
        elif what == "setpgid":
            kin = live[draw(st.sampled_from(others))]
            groups = sorted({kin.pid} | {other.pgid for other in live.values() if other.session == kin.session})
            if kin.session != kin.pid:
                live[kin.pid] = kin._replace(pgid=draw(st.sampled_from(groups)))
        elif what == "die":
            dead = live.pop(draw(st.sampled_from(others)))
            reaper = draw(st.sampled_from([1, *[pid for pid in (dead.ppid,) if pid in live]]))
            for kin in list(live.values()):
                if kin.ppid == dead.pid:
                    live[kin.pid] = kin._replace(ppid=reaper)
        else:
            readings.append(dict(live))
    return [*readings, dict(live)]


def oracle(root: Key, readings: list[Live]) -> set[Key]:
    """Return the set by the definition in words, from the whole history, by brute force."""
    now = readings[-1]
    born_under: set[tuple[Key, Key]] = set()
    leads: set[tuple[Key, Key]] = set()
    for at, live in enumerate(readings):
        for kin in live.values():
            parent = live.get(kin.ppid)
            if parent is not None and parent.pid > 1 and parent.start_ticks <= kin.start_ticks:
                born_under.add((parent.key, kin.key))
            if live is not now:
                continue
            for field in ("session", "pgid"):
                # Who held that number last, while the session or group has had a member ever since.
                number = getattr(kin, field)
                for earlier in reversed(readings[: at + 1]):
                    if number not in {getattr(other, field) for other in earlier.values()}:
                        break
                    if number in earlier:
                        leads.add((earlier[number].key, kin.key))
                        break
    members = {root}
    while True:
        more = {child for parent, child in born_under | leads if parent in members and child[0] > 1} - members
        if not more:
            return {kin.key for kin in now.values() if kin.key in members}
        members |= more


@given(histories(), st.data())
def test_the_set_is_what_its_definition_says(readings: list[Live], data: st.DataObject) -> None:
    ancestry = observed(*readings)
    now = readings[-1]
    ever = sorted({kin.key for live in readings for kin in live.values() if kin.pid > 1} or {(1, 0)})
    root = data.draw(st.sampled_from(ever))
    # Of a root that ended the agent remembers only what a live process still needs.
    chosen = choose_set([root], now, ancestry)
    assert set(chosen) == oracle(root, readings)
    assert all(now[pid].start_ticks == start for pid, start in chosen)


@given(histories(), st.data())
def test_the_set_is_a_fixed_point_and_grows_with_its_roots(readings: list[Live], data: st.DataObject) -> None:
    ancestry = observed(*readings)
    now = readings[-1]
    keys = sorted(kin.key for kin in now.values() if kin.pid > 1) or [(1, 0)]
    roots = data.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=3, unique=True))
    chosen = choose_set(roots, now, ancestry)
    assert set(choose_set(list(chosen), now, ancestry)) == set(chosen)
    assert set(chosen) == set().union(*(choose_set([root], now, ancestry) for root in roots))
    assert all(chosen[root] == "target" for root in roots)


@given(histories())
def test_memory_is_bounded_by_what_lives(readings: list[Live]) -> None:
    ancestry = observed(*readings)
    ancestry.observe(host((1, 0, 0, 1, 1)))
    assert dict(ancestry.all_parents()) == {(1, 0): set()}
    assert ancestry.leader_of_session(1) == (1, 0)
    assert [ancestry.leader_of_session(pid) or ancestry.leader_of_group(pid) for pid in range(2, 14)] == [None] * 12


SHELL = host((50, 5, 1, 50, 50), (60, 6, 50, 60, 50), (61, 7, 60, 60, 50), (70, 8, 50, 70, 50))
"""A shell (50) with a job (60, its child 61) and another job (70), all in the shell's session."""


def test_a_job_never_pulls_in_the_session_of_its_shell() -> None:
    chosen = choose_set([(60, 6)], SHELL, observed(SHELL))
    assert chosen == {(60, 6): "target", (61, 7): "child of 60"}


def test_the_shell_itself_takes_all_that_it_leads() -> None:
    chosen = choose_set([(50, 5)], SHELL, observed(SHELL))
    assert set(chosen) == {(50, 5), (60, 6), (61, 7), (70, 8)}


def test_a_parent_in_between_that_ended_is_remembered() -> None:
    after = host((60, 6, 50, 60, 50), (62, 9, 1, 99, 99), (50, 5, 1, 50, 50))
    before = {**SHELL, 62: Kin(62, 9, 61, 60, 50)}
    assert set(choose_set([(60, 6)], after, observed(before, after))) == {(60, 6), (62, 9)}
    assert choose_set([(60, 6)], after, observed(before, after))[(62, 9)] == "was a child of 61"
    assert set(choose_set([(60, 6)], after, observed(after))) == {(60, 6)}, "what was never seen is not guessed"


def test_a_session_of_a_descendant_belongs_to_the_set_also_after_its_leader() -> None:
    before = host((60, 6, 1, 60, 60), (61, 7, 60, 61, 61), (62, 8, 61, 61, 61))
    after = host((60, 6, 1, 60, 60), (63, 9, 1, 61, 61))
    chosen = choose_set([(60, 6)], after, observed(before, {**before, 63: Kin(63, 9, 62, 61, 61)}, after))
    assert (63, 9) in chosen
    unseen = choose_set([(60, 6)], after, observed(before, after))
    assert unseen[(63, 9)] == "in the session led by 61"


def test_a_number_that_was_given_out_again_is_somebody_else() -> None:
    before = host((60, 6, 1, 60, 60), (61, 7, 60, 60, 60))
    reborn = host((60, 90, 1, 60, 60), (61, 7, 1, 60, 60), (65, 95, 60, 60, 60))
    assert set(choose_set([(60, 6)], reborn, observed(before, reborn))) == {(61, 7)}
    again = host((60, 6, 1, 60, 60), (61, 97, 1, 61, 61))
    assert set(choose_set([(60, 6)], again, observed(before, again))) == {(60, 6)}


def test_a_child_is_never_older_than_its_parent() -> None:
    live = host((60, 90, 1, 60, 60), (61, 7, 60, 61, 61))
    assert set(choose_set([(60, 90)], live, observed(live))) == {(60, 90)}


def test_a_session_that_emptied_is_forgotten() -> None:
    before = host((60, 6, 1, 60, 60), (61, 7, 60, 60, 60))
    empty = host((1, 0, 0, 1, 1))
    other = host((1, 0, 0, 1, 1), (80, 99, 1, 60, 60))
    assert observed(before, other).leader_of_session(60) == (60, 6), "it never emptied"
    ancestry = observed(before, empty, other)
    assert ancestry.leader_of_session(60) is None
    assert ancestry.leader_of_group(60) is None
    assert choose_set([(60, 6)], other, ancestry) == {}


def test_the_first_process_is_never_drawn_in_and_is_nobodys_parent() -> None:
    live = host((1, 0, 0, 1, 1), (60, 6, 1, 1, 1))
    assert set(choose_set([(60, 6)], live, observed(live))) == {(60, 6)}
    assert not any(parents for _, parents in observed(live).all_parents())


def test_a_copy_is_independent() -> None:
    ancestry = observed(SHELL)
    twin = ancestry.copy()
    twin.observe(host((1, 0, 0, 1, 1)))
    assert set(choose_set([(60, 6)], SHELL, ancestry)) == {(60, 6), (61, 7)}
    assert dict(twin.all_parents()) == {(1, 0): set()}
