"""The cursor of the tree: it follows a process, and never slides to another one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from console.host.state import HostState
from console.host.tree import SORTS, TreeView, build_rows
from console.widgets.tree_cursor import TreeCursor
from tests.scripted import CLIENT_PID, SERVER_PID, changed, identity_of, sample_state, without


def on(state: HostState, pid: int) -> TreeCursor:
    cursor = TreeCursor()
    rows = build_rows(state, TreeView())
    cursor.update(rows, state)
    cursor.move_to(next(i for i, row in enumerate(rows) if row.process.pid == pid))
    return cursor


@given(st.lists(st.tuples(st.sampled_from(SORTS), st.floats(0, 800)), min_size=1, max_size=6))
def test_the_cursor_follows_its_process_through_any_reordering(steps: list[tuple[str, float]]) -> None:
    state = sample_state()
    cursor = on(state, CLIENT_PID)
    for sort, cpu in steps:
        state = changed(state, SERVER_PID, cpu_percent=cpu)
        cursor.update(build_rows(state, TreeView(sort=sort)), state)
        row = cursor.selected
        assert row is not None and row.process.pid == CLIENT_PID


def test_when_the_process_ends_the_cursor_stays_on_a_ghost_in_its_place() -> None:
    state = sample_state()
    cursor = on(state, 98403)
    place = cursor.index
    state = without(state, 98403)
    for _ in range(2):
        cursor.update(build_rows(state, TreeView()), state)
        assert cursor.selected is None and cursor.ghost is not None and cursor.ghost.pid == 98403
        assert cursor.index == place and cursor.height == len(cursor.rows) + 1
        assert cursor.line(place) is None
    assert [r.process.pid for r in (cursor.line(place - 1), cursor.line(place + 1)) if r] == [98402, 98404]


def test_a_reborn_pid_is_another_process() -> None:
    state = sample_state()
    cursor = on(state, 98403)
    state = changed(state, 98403, start_ticks=39_999_999)
    cursor.update(build_rows(state, TreeView()), state)
    assert cursor.selected is None and cursor.ghost is not None
    assert cursor.ghost.start_ticks != state.processes[98403].start_ticks


def test_the_same_pid_and_ticks_after_a_reboot_are_another_process() -> None:
    state = sample_state()
    cursor = on(state, 98403)
    assert state.hello is not None
    rebooted = replace(state, hello=replace(state.hello, boot_id="another"))
    cursor.update(build_rows(rebooted, TreeView()), rebooted)
    assert cursor.selected is None and cursor.ghost is not None


def test_moving_away_from_a_ghost_lands_on_its_neighbour_and_drops_it() -> None:
    for step, expected in ((1, 98404), (-1, 98402)):
        state = sample_state()
        cursor = on(state, 98403)
        state = without(state, 98403)
        cursor.update(build_rows(state, TreeView()), state)
        cursor.move(step)
        row = cursor.selected
        assert row is not None and row.process.pid == expected
        assert cursor.ghost is None and cursor.height == len(cursor.rows)


def test_a_ghost_at_the_end_of_the_list() -> None:
    state = sample_state()
    last = build_rows(state, TreeView())[-1].process.pid
    cursor = on(state, last)
    state = without(state, last)
    cursor.update(build_rows(state, TreeView()), state)
    cursor.move(1)
    assert cursor.ghost is not None and cursor.selected is None
    cursor.move(-1)
    assert cursor.selected is cursor.rows[-1]


def test_folding_above_takes_the_cursor_to_the_folded_node() -> None:
    state = sample_state()
    cursor = on(state, 98405)
    view = TreeView(folded=frozenset({identity_of(state, SERVER_PID)}))
    cursor.update(build_rows(state, view), state)
    row = cursor.selected
    assert row is not None and row.process.pid == SERVER_PID and cursor.ghost is None


def test_a_filter_that_hides_the_row_takes_the_cursor_to_the_first_match() -> None:
    state = sample_state()
    cursor = on(state, 98405)
    cursor.update(build_rows(state, TreeView(filter="run_inference")), state)
    row = cursor.selected
    assert row is not None and row.process.pid == CLIENT_PID


def test_a_row_shown_for_its_children_only_is_left_for_a_match() -> None:
    state = sample_state()
    cursor = on(state, 1)
    cursor.update(build_rows(state, TreeView(filter="run_inference")), state)
    assert cursor.selected is not None and cursor.selected.process.pid == 1
    cursor.prefer_match()
    assert cursor.selected is not None and cursor.selected.process.pid == CLIENT_PID


def test_an_empty_list_has_no_selection_and_no_ghost() -> None:
    cursor = TreeCursor()
    cursor.update([], HostState())
    cursor.move(1)
    assert cursor.selected is None and cursor.ghost is None and cursor.height == 0
