"""HostState is folded from events: however the deltas are cut, the state is the same, and nothing old changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import protocol
from console.host.state import HostState, Process, fold

Row = dict[str, Any]
Table = dict[int, Row]
Event = dict[str, Any]

PIDS = st.integers(2, 9)
CHANGING: dict[str, st.SearchStrategy[Any]] = {
    "ppid": st.integers(1, 9),
    "pgid": st.integers(1, 9),
    "state": st.sampled_from("RSDTZ"),
    "threads": st.integers(1, 3),
    "cpu_percent": st.none() | st.sampled_from([0.0, 12.5, 800.0]),
    "rss_bytes": st.integers(0, 3),
    "comm": st.sampled_from(["a", "b) c", "\udcff"]),
    "argv": st.lists(st.sampled_from(["x", "", "\udc80", "y z"]), max_size=3),
    "argv_cut": st.booleans(),
}
FIXED = {"session": 2, "uid": 0, "user": "root", "argv_digest": "d", "exe": None, "cgroup": "/", "started_at": 1.0}


@st.composite
def tables(draw: st.DrawFn) -> list[Table]:
    """A host through time: processes come, change, end, and pids are given out again."""
    births = 0
    table: Table = {}
    found = []
    for _ in range(draw(st.integers(1, 5))):
        table = dict(table)
        for pid in draw(st.sets(PIDS, max_size=5)):
            what = draw(st.sampled_from(["end", "born", "change"]))
            if what == "end":
                table.pop(pid, None)
            elif what == "change" and pid in table:
                names = draw(st.sets(st.sampled_from(sorted(CHANGING)), max_size=3))
                table[pid] = {**table[pid], **{name: draw(CHANGING[name]) for name in names}}
            else:
                births += 1
                row = {name: draw(strategy) for name, strategy in CHANGING.items()}
                table[pid] = {**FIXED, **row, "pid": pid, "start_ticks": births}
        found.append(table)
    return found


def delta(old: Table, new: Table) -> Event:
    """Return the ``procs`` event that leads from ``old`` to ``new``."""
    same = {pid for pid in old.keys() & new.keys() if old[pid]["start_ticks"] == new[pid]["start_ticks"]}
    changed = [(pid, {k: v for k, v in new[pid].items() if old[pid][k] != v}) for pid in same]
    return {
        "ev": protocol.PROCS,
        "gone": sorted(old.keys() - same),
        "added": [new[pid] for pid in sorted(new.keys() - same)],
        "changed": [(pid, change) for pid, change in changed if change],
    }


def pieces_of(event: Event, data: st.DataObject) -> list[Event]:
    """Return ``event`` in pieces that say the same: what is gone first, then every row in any order and company."""
    parts: list[Event] = [{"gone": [pid]} for pid in event["gone"]]
    rest: list[Event] = [{"added": [row]} for row in event["added"]]
    for pid, change in event["changed"]:
        rest += [{"changed": [(pid, {name: value})]} for name, value in change.items()]
    ordered = data.draw(st.permutations(parts)) + data.draw(st.permutations(rest))
    return [{"ev": protocol.PROCS, **part} for part in ordered]


def over_the_wire(event: Event) -> Event:
    return protocol.decode(protocol.encode(event))


def built(table: Table) -> dict[int, Process]:
    return {pid: Process(**{**row, "argv": tuple(row["argv"])}) for pid, row in table.items()}


@given(history=tables(), data=st.data())
def test_any_way_to_cut_the_deltas_gives_the_same_processes(history: list[Table], data: st.DataObject) -> None:
    state, before = HostState(), {}
    for step, table in enumerate(history):
        event = delta(before, table)
        how = data.draw(st.sampled_from(["whole", "pieces", "later", "full"]))
        if how == "later" and step < len(history) - 1:
            continue
        if how == "full":
            rows = list(table.values())
            cut = data.draw(st.integers(0, len(rows)))
            events: list[Event] = [
                {"ev": protocol.PROCS, "reset": True, "complete": False, "added": rows[:cut]},
                {"ev": protocol.PROCS, "reset": False, "complete": True, "added": rows[cut:]},
            ]
        else:
            events = pieces_of(event, data) if how == "pieces" else [event]
        for part in events:
            state = fold(state, over_the_wire(part))
        before = table
        assert state.processes == built(table)


EVENTS: list[Event] = [
    {"ev": protocol.PROCS, "reset": True, "complete": False, "added": [], "uptime_s": 5.5, "wall": 9.5, "t": 1.5},
    {"ev": protocol.PROCS, "gone": [2, 77], "changed": [[3, {"state": "T", "future": 1}], [78, {"state": "T"}]]},
    {"ev": protocol.GPUS, "driver": {"state": "ok", "future": 1}, "gpus": [{"index": 0, "throttle": ["power"]}]},
    {"ev": protocol.GPUS, "gpus": [{"index": 0, "future": [], "processes": [{"pid": 3, "memory_bytes": None,
     "start_ticks": 2, "future": 1}]}]},
    {"ev": protocol.GAUGES, "cores": 4, "load": [1, 2, 3], "disks": [{"path": "/", "future": 1}], "missing": {"a": ""}},
    {"ev": protocol.PAUSES, "pauses": [{"pid": 3, "start_ticks": 2, "since": 1.0, "by": "me", "future": 1}]},
    {"ev": protocol.ALERT, "kind": "woke", "text": "3 woke", "at": 1.0, "future": 1},
    {"ev": protocol.FAULT, "part": "gauges", "text": "broken"},
    {"ev": protocol.FAULT, "part": "gauges", "text": ""},
    {"ev": protocol.HELLO, "version": 1, "hostname": "h", "boot_id": "b", "uid": 0, "user": "root", "python": "3.9",
     "kernel": "6", "clk_tck": 100, "pid": 7, "start_ticks": 9, "can": {"pidfd": True}, "future": 1},
    {"ev": "invented", "processes": 5},
    {"note": "no event at all"},
]  # fmt: skip


def some_state() -> HostState:
    rows = {pid: {**FIXED, **row_defaults(), "pid": pid, "start_ticks": pid - 1} for pid in (2, 3)}
    state = fold(HostState(), {"ev": protocol.PROCS, "reset": True, "complete": True, "added": list(rows.values())})
    return fold(state, {"ev": protocol.FAULT, "part": "gpus", "text": "broken"})


def row_defaults() -> Row:
    return {
        "ppid": 1,
        "pgid": 2,
        "state": "S",
        "threads": 1,
        "cpu_percent": 0.0,
        "rss_bytes": 1,
        "comm": "a",
        "argv": ["a"],
    }


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: str(event.get("ev", "none")))
def test_neither_the_old_state_nor_the_event_changes(event: Event) -> None:
    state = some_state()
    frozen, spoken = copy.deepcopy(dump(state)), copy.deepcopy(event)
    new = fold(state, event)
    assert dump(state) == frozen
    assert event == spoken
    # What the new state holds is its own: a later change of the event does not reach it.
    kept = copy.deepcopy(dump(new))
    for value in event.values():
        if isinstance(value, list | dict):
            value.clear()
    assert dump(new) == kept
    event.update(spoken)


def dump(state: HostState) -> dict[str, Any]:
    values = {name: getattr(state, name) for name in HostState.__dataclass_fields__}
    return {name: dict(value) if hasattr(value, "items") else repr(value) for name, value in values.items()}


def test_fields_and_events_of_a_later_agent_change_nothing() -> None:
    state = some_state()
    for event in EVENTS:
        if event.get("ev") not in (protocol.HELLO, "invented", None):
            state = fold(state, {**event, "future": {"a": 1}})
    assert state.processes[3].state == "T" if 3 in state.processes else state.processes == {}
    later = fold(state, {"ev": "invented", "seq": 99, "t": 5.0, "processes": 5})
    assert (later.seq, later.t) == (99, 5.0)
    assert later.processes is state.processes and later.gpus is state.gpus
    assert fold(state, {"seq": 7}).seq == 7


def test_the_list_is_complete_when_its_last_part_has_come() -> None:
    row = {**FIXED, **row_defaults(), "pid": 2, "start_ticks": 1}
    state = fold(HostState(), {"ev": protocol.PROCS, "reset": True, "complete": False, "added": [row]})
    assert not state.complete
    state = fold(state, {"ev": protocol.PROCS, "reset": False, "complete": True, "added": []})
    assert state.complete and list(state.processes) == [2]
    assert fold(state, {"ev": protocol.PROCS}).complete, "a delta does not undo it"
    assert not fold(state, {"ev": protocol.PROCS, "reset": True, "added": []}).complete


def test_a_new_conversation_starts_from_nothing() -> None:
    hello = next(event for event in EVENTS if event.get("ev") == protocol.HELLO)
    state = fold(some_state(), {**hello, "seq": 1})
    assert state == HostState(hello=state.hello, seq=1)


def test_alerts_are_bounded_and_the_newest_stay() -> None:
    state = HostState()
    for number in range(250):
        state = fold(state, {"ev": protocol.ALERT, "kind": "woke", "text": str(number), "at": 1.0})
    assert [alert.text for alert in state.alerts] == [str(number) for number in range(50, 250)]


def test_a_pause_and_gpu_memory_belong_to_exactly_one_process() -> None:
    state = fold(some_state(), {"ev": protocol.PAUSES, "pauses": [{"pid": 3, "start_ticks": 2, "since": 1.0}]})
    holder = {"pid": 3, "memory_bytes": 5, "start_ticks": 2}
    rows = [{"index": 0, "processes": [holder]}, {"index": 1, "processes": [holder, {**holder, "start_ticks": 1}]}]
    state = fold(state, {"ev": protocol.GPUS, "driver": {}, "gpus": rows})
    assert state.pause_of(state.processes[3]) is not None
    assert state.gpu_bytes() == {3: 10}
    reborn = {**FIXED, **row_defaults(), "pid": 3, "start_ticks": 50}
    state = fold(state, {"ev": protocol.PROCS, "gone": [3], "added": [reborn]})
    assert state.pause_of(state.processes[3]) is None
    assert state.gpu_bytes() == {}
