"""A plan in words: every target is there, nothing of the host is interpreted, nothing is wider than asked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.host import lines, plan_text
from console.host.actions import Plan, PlannedProcess
from console.host.process_table import MAX_GUIDES, tree_guides

BOOT = "boot"
GIB = 1 << 30


def process(pid: int, *argv: str, **changes: Any) -> PlannedProcess:
    values: dict[str, Any] = {
        "pid": pid,
        "start_ticks": pid * 10,
        "boot_id": BOOT,
        "ppid": 1,
        "uid": 0,
        "user": "root",
        "argv": argv or ("sleep", str(pid)),
        "comm": "sleep",
        "argv_digest": "d",
        "state": "S",
        "age_s": 11_520.0,
        "rss_bytes": 1_288_490_188,
        "gpu_bytes": None,
        "why": "",
        "sends": ("SIGSTOP",),
    }
    return PlannedProcess(**{**values, **changes})


def plan(*targets: PlannedProcess, **changes: Any) -> Plan:
    values: dict[str, Any] = {
        "action": "pause",
        "scope": "tree",
        "roots": (targets[0].identity,) if targets else (),
        "targets": targets,
    }
    return Plan(**{**values, **changes})


def test_a_row_tells_pid_user_age_state_memory_signal_and_command() -> None:
    shown = plan_text.plan_lines(plan(process(121338, "python3", "run_inference.py", gpu_bytes=593 * GIB)), 100)
    assert shown[0] == "Pause: SIGSTOP to 1 process"
    row = next(each for each in shown if "121338" in each)
    assert row.split("  ")[-1] == "python3 run_inference.py"
    assert row.split() == [
        "121338",
        "root",
        "3h",
        "12m",
        "S",
        "593",
        "G",
        "1.2",
        "G",
        "STOP",
        "python3",
        "run_inference.py",
    ]


def test_the_signals_of_each_target_are_named_in_order() -> None:
    shown = plan_text.plan_lines(
        plan(process(10, sends=("SIGTERM", "SIGCONT")), process(11, sends=(), ppid=10, depth=1), action="stop"), 100
    )
    assert "TERM+CONT" in next(each for each in shown if "sleep 10" in each)
    assert " waits " in next(each for each in shown if "sleep 11" in each)
    assert "waits up to 45 s for all 2 to end" in shown[0]


def test_why_is_said_only_where_the_tree_does_not_show_it() -> None:
    shown = plan_text.plan_lines(
        plan(
            process(10, why="what you chose"),
            process(11, ppid=10, depth=1, why="a child of 10"),
            process(12, ppid=1, depth=1, why="was a child of 10 before its parent ended"),
        ),
        100,
    )
    text = "\n".join(shown)
    assert "↳ was a child of 10 before its parent ended" in text
    assert "what you chose" not in text
    assert "a child of 10\n" not in text


def test_what_is_spared_names_pid_and_memory_and_says_that_it_stays_up() -> None:
    server = process(98231, "python", "-m", "sglang.launch_server", "--model", "x" * 80, gpu_bytes=593 * GIB)
    shown = plan_text.spared_lines(plan(process(10), spared=(server,)), 120, {server.identity: 8})
    assert len(shown) == 1
    text = lines.plain(shown[0])
    assert text.startswith("Not touched: python -m sglang.launch_server")
    assert text.endswith("… 98231 (root, 593 G on 8 GPUs) stays up")


def test_the_head_counts_targets_spared_related_and_warnings() -> None:
    made = plan(process(1), process(2), spared=(process(3),), candidates=(process(4),), warnings=("w",))
    assert plan_text.counts_text(made) == "2 processes · 1 not touched · 1 related, not included · 1 warning"
    only = dataclasses.replace(made, scope="only", targets=made.targets[:1])
    assert plan_text.counts_text(only).startswith("1 process, only what you chose")


def test_a_refusal_comes_before_the_targets() -> None:
    shown = plan_text.plan_lines(plan(process(10), refusal="10 is the agent itself"), 80)
    assert shown[1] == "Refused: 10 is the agent itself"
    assert any("sleep 10" in each for each in shown[2:])


def test_every_one_of_300_targets_has_its_row() -> None:
    targets = tuple(process(1000 + i, "worker", f"--rank={i}", ppid=1000, depth=min(i, 1)) for i in range(300))
    shown = plan_text.plan_lines(plan(*targets), 80)
    for target in targets:
        assert sum(each.split()[0] == str(target.pid) for each in shown if each.split()) == 1
    assert "300 processes" in shown[0]


@pytest.mark.parametrize("hostile", ["[bold red]x[/]", "a\nb", "\x1b[31mred", "\u202eevil", "\udcff", "日本語" * 30])
def test_text_of_the_host_is_shown_as_data(hostile: str) -> None:
    made = plan(
        process(10, hostile, why=hostile, user=hostile),
        spared=(process(11, hostile),),
        candidates=(process(12, hostile, why=hostile),),
        warnings=(hostile,),
    )
    for shown in plan_text.plan_lines(made, 80):
        assert shown.isprintable()
        assert lines.cells(shown) <= 80
    if hostile.startswith("["):
        assert any(hostile in each for each in plan_text.plan_lines(made, 200))


argvs = st.lists(st.text(max_size=40), max_size=4).map(tuple)


@given(
    st.lists(st.tuples(argvs, st.integers(0, 12), st.text(max_size=30)), min_size=1, max_size=8),
    st.integers(72, 200),
    st.booleans(),
)
def test_no_line_is_wider_than_asked(rows: list[tuple[tuple[str, ...], int, str]], width: int, whole: bool) -> None:
    targets = tuple(
        process(100 + i, *argv, depth=depth, ppid=99 + i, why=why) for i, (argv, depth, why) in enumerate(rows)
    )
    head, body = plan_text.target_table(plan(*targets), width, whole=whole)
    for each in (head, *body):
        assert lines.cells(lines.plain(each)) <= width
    pids = [lines.plain(each).split()[0] for each in body if lines.plain(each)[:3].strip().isdigit()]
    assert pids == [str(target.pid) for target in targets]


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4), st.integers(72, 160))
def test_a_whole_command_loses_no_character_but_blanks(argv: list[str], width: int) -> None:
    from console.agent.protocol import command_line

    target = process(7, *argv)
    head, body = plan_text.target_table(plan(target), width, whole=True)
    start = lines.plain(head).index("COMMAND")
    shown = "".join("".join(text for text, _ in each)[start:] for each in body)
    assert "".join(shown.split()) == "".join(command_line(argv).split())


@given(st.text(), st.integers(2, 60), st.integers(2, 60))
def test_wrapping_keeps_the_text_and_the_width(text: str, width: int, rest: int) -> None:
    parts = lines.wrap(text, width, rest)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert lines.cells(parts[0]) <= width
    assert all(lines.cells(part) <= rest for part in parts[1:])


@given(st.text(), st.integers(0, 40))
def test_cropping_fits_and_shows_that_it_cut(text: str, width: int) -> None:
    cut = lines.crop(text, width)
    assert lines.cells(cut) <= width
    assert cut == text or width == 0 or cut.endswith("…")


def test_guides_draw_a_tree() -> None:
    assert tree_guides([0, 1, 2, 2, 1, 2]) == ["", "├ ", "│ ├ ", "│ └ ", "└ ", "  └ "]


@given(st.lists(st.integers(0, 30)))
def test_guides_of_any_tree_stay_narrow(depths: list[int]) -> None:
    guides = tree_guides(depths)
    assert len(guides) == len(depths)
    assert all(lines.cells(guide) <= 2 * MAX_GUIDES for guide in guides)
    assert all((guide == "") == (depth == 0) for guide, depth in zip(guides, depths, strict=True))
