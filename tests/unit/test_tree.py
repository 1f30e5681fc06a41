"""The process tree as rows: structure, sums, folds, filters, order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.host.state import HostState
from console.host.tree import SORTS, TreeRow, TreeView, build_rows, gpu_holders
from tests.scripted import (
    AGENT_PID,
    CLIENT_PID,
    GIB,
    PAUSED_PID,
    SERVER_PID,
    changed,
    identity_of,
    process,
    sample_state,
    with_processes,
)

BASE = sample_state()


def pids(rows: list[TreeRow]) -> list[int]:
    return [row.process.pid for row in rows]


def row_of(rows: list[TreeRow], pid: int) -> TreeRow:
    return next(row for row in rows if row.process.pid == pid)


def total_gpu(state: HostState, pid: int) -> int:
    """Sum the GPU memory of a subtree the slow way."""
    below = [p.pid for p in state.processes.values() if p.ppid == pid and p.pid != pid]
    return (gpu_holders(state).get(pid) or 0) + sum(total_gpu(state, each) for each in below)


FIGURES = st.tuples(
    st.integers(0, 30),
    st.sampled_from(["python3 train.py", "bash", "sshd: x"]),
    st.sampled_from([None, 0.0, 1.5, 99.0]),
    st.integers(0, 5),
    st.sampled_from(["", "", "", "kernel", "ours"]),
    st.sampled_from([0, 1000]),
)


@st.composite
def hosts(draw: st.DrawFn) -> HostState:
    """Return hosts whose parents may be missing, later than their children, themselves, or a ring."""
    numbers = draw(st.lists(st.integers(1, 30), min_size=1, max_size=12, unique=True))
    figures = draw(st.lists(FIGURES, min_size=len(numbers), max_size=len(numbers)))
    rows = [
        process(
            pid,
            parent,
            argv,
            cpu_percent=cpu,
            rss_bytes=rss * GIB,
            kernel=kind == "kernel",
            ours=kind == "ours",
            uid=uid,
        )
        for pid, (parent, argv, cpu, rss, kind, uid) in zip(numbers, figures, strict=True)
    ]
    return with_processes(BASE, *rows)


@given(hosts(), st.sampled_from(SORTS))
def test_every_process_has_exactly_one_row(state: HostState, sort: str) -> None:
    rows = build_rows(state, TreeView(sort=sort, kernel=True))
    assert sorted(pids(rows)) == sorted(state.processes)
    assert [row.identity for row in rows] == [state.identity(row.process) for row in rows]


@given(hosts(), st.sampled_from(SORTS))
def test_depth_grows_by_one_and_a_child_is_below_its_parent(state: HostState, sort: str) -> None:
    rows = build_rows(state, TreeView(sort=sort, kernel=True))
    trail: list[TreeRow] = []
    for row in rows:
        assert row.depth <= len(trail)
        del trail[row.depth :]
        if trail:
            assert row.process.ppid == trail[-1].process.pid
            assert trail[-1].has_children
        trail.append(row)


@given(hosts(), st.data())
def test_folding_hides_exactly_the_subtree_and_keeps_its_sums(state: HostState, data: st.DataObject) -> None:
    rows = build_rows(state, TreeView(kernel=True))
    chosen = data.draw(st.sampled_from(rows))
    folded = build_rows(state, TreeView(kernel=True, folded=frozenset({chosen.identity})))
    assert len(folded) == len(rows) - (chosen.tree_count - 1)
    same = row_of(folded, chosen.process.pid)
    assert same.folded == (chosen.tree_count > 1)
    assert (same.tree_count, same.tree_rss_bytes) == (chosen.tree_count, chosen.tree_rss_bytes)


@given(hosts())
def test_sums_of_the_roots_are_the_sums_of_all(state: HostState) -> None:
    roots = [row for row in build_rows(state, TreeView(kernel=True)) if row.depth == 0]
    assert sum(row.tree_count for row in roots) == len(state.processes)
    assert sum(row.tree_rss_bytes for row in roots) == sum(p.rss_bytes for p in state.processes.values())
    assert sum(row.tree_cpu_percent for row in roots) == pytest.approx(
        sum(p.cpu_percent or 0.0 for p in state.processes.values())
    )


@given(hosts(), st.sampled_from(SORTS), st.sampled_from(["train", "BASH", "root", "1", "nothing like it"]))
def test_a_filter_shows_all_matches_none_of_ours_and_only_ancestors_besides(
    state: HostState, sort: str, text: str
) -> None:
    rows = build_rows(state, TreeView(sort=sort, filter=text, kernel=True))
    wanted = {
        p.pid
        for p in state.processes.values()
        if not p.ours and any(text.casefold() in part.casefold() for part in (" ".join(p.argv), p.user, str(p.pid)))
    }
    assert {row.process.pid for row in rows if not row.context} == wanted
    assert not any(row.process.ours for row in rows)
    for place, row in enumerate(rows):
        if row.context:
            assert rows[place + 1].depth == row.depth + 1


def test_siblings_are_ordered_by_the_sums_of_their_subtrees() -> None:
    state = sample_state()
    children = [row for row in build_rows(state, TreeView(sort="gpu")) if row.depth == 1]
    assert children[0].process.pid == SERVER_PID
    assert children[0].gpu_bytes is None and children[0].tree_gpu_bytes == total_gpu(state, SERVER_PID) > 590 * GIB
    assert children[1].process.pid == PAUSED_PID
    assert [r.process.pid for r in children[2:]] == sorted(r.process.pid for r in children[2:])


@pytest.mark.parametrize(
    ("sort", "first", "last"), [("cpu", 20, 10), ("rss", 30, 10), ("age", 30, 10), ("pid", 10, 30), ("command", 20, 30)]
)
def test_each_sort_puts_the_right_one_first(sort: str, first: int, last: int) -> None:
    state = with_processes(
        sample_state(),
        process(10, 0, "mm", cpu_percent=1.0, rss_bytes=1, age_s=1),
        process(20, 0, "aa", cpu_percent=9.0, rss_bytes=2, age_s=2),
        process(30, 0, "zz", cpu_percent=5.0, rss_bytes=3, age_s=3),
    )
    order = pids(build_rows(state, TreeView(sort=sort)))
    assert (order[0], order[-1]) == (first, last)


def test_kernel_threads_are_hidden_until_asked_for() -> None:
    assert not {2, 77} & set(pids(build_rows(sample_state(), TreeView())))
    assert {2, 77} <= set(pids(build_rows(sample_state(), TreeView(kernel=True))))


def test_a_search_for_a_command_line_does_not_find_the_search() -> None:
    state = sample_state()
    assert "run_inference" in " ".join(state.processes[AGENT_PID].argv)
    found = [row.process.pid for row in build_rows(state, TreeView(filter="run_INFERENCE")) if not row.context]
    assert found == [CLIENT_PID]


def test_only_gpu_keeps_holders_and_their_ancestors_dimmed() -> None:
    rows = build_rows(sample_state(), TreeView(only_gpu=True))
    assert {r.process.pid for r in rows if not r.context} == {*range(98402, 98410), PAUSED_PID}
    assert {r.process.pid for r in rows if r.context} == {1, SERVER_PID}


def test_only_mine_is_the_user_of_the_agent() -> None:
    rows = build_rows(sample_state(), TreeView(only_mine=True))
    assert {r.process.uid for r in rows} == {0} and len(rows) == 18


def test_a_search_looks_into_folded_nodes() -> None:
    state = sample_state()
    view = TreeView(filter="scheduler_TP3", folded=frozenset({identity_of(state, SERVER_PID), identity_of(state, 1)}))
    assert pids(build_rows(state, view)) == [1, SERVER_PID, 98405]


def test_memory_that_the_driver_does_not_tell_is_held_but_not_counted() -> None:
    state = sample_state()
    gpus = [replace(g, processes=tuple(replace(h, memory_bytes=None) for h in g.processes or ())) for g in state.gpus]
    rows = build_rows(replace(state, gpus=tuple(gpus)), TreeView())
    rank = row_of(rows, 98402)
    assert rank.holds_gpu and rank.gpu_bytes is None
    assert row_of(rows, SERVER_PID).tree_holds_gpu and row_of(rows, SERVER_PID).tree_gpu_bytes == 0


def test_a_pid_of_nvml_that_was_reborn_holds_nothing() -> None:
    state = changed(sample_state(), 98402, start_ticks=7)
    assert 98402 not in gpu_holders(state)


def test_the_pinned_process_stays_where_it_matches_no_more() -> None:
    state = sample_state()
    view = TreeView(only_gpu=True, pinned=identity_of(state, CLIENT_PID))
    assert row_of(build_rows(state, view), CLIENT_PID).context
    reborn = changed(state, CLIENT_PID, start_ticks=1)
    assert CLIENT_PID not in pids(build_rows(reborn, view))


def test_guides_draw_the_tree() -> None:
    state = with_processes(
        sample_state(),
        process(1, 0, "a"),
        process(2, 1, "b"),
        process(3, 2, "c"),
        process(4, 1, "d"),
        process(9, 0, "e"),
    )
    view = TreeView(sort="pid")
    assert [row.guide for row in build_rows(state, view)] == ["▾ ", "├▾ ", "│└─ ", "└─ ", "  "]
    folded = TreeView(sort="pid", folded=frozenset({identity_of(state, 2)}))
    assert [row.guide for row in build_rows(state, folded)] == ["▾ ", "├▸ ", "└─ ", "  "]
