"""The audit file as entries: each action once, whatever the order, the gaps and the damage of its records."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.host import audit, lines

WALL = 1_764_542_467.0


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def row(pid: int = 121338, **changes: Any) -> dict[str, Any]:
    return {"pid": pid, "start_ticks": 7, "argv": ["python3", "run.py"], "uid": 0, "user": "root", **changes}


def intent(action_id: str = "a", at: float = WALL, **changes: Any) -> dict[str, Any]:
    return {
        "record": "intent",
        "action_id": action_id,
        "action": "kill",
        "scope": "tree",
        "at": at,
        "ssh_user": "root",
        "operator": "ops@laptop",
        "targets": [row(), row(121340)],
        **changes,
    }


def result(action_id: str = "a", at: float = WALL + 2, **changes: Any) -> dict[str, Any]:
    verified = row(sent="SIGKILL", state_before="S", state_after="gone", verified=True)
    return {
        "record": "result",
        "action_id": action_id,
        "at": at,
        "ok": True,
        "phase": "done",
        "targets": [verified],
        **changes,
    }


def test_an_intent_and_its_result_are_one_entry() -> None:
    (entry,) = audit.merge_records([intent(), result(elapsed_s=0.2)])
    assert (entry.action, entry.scope, entry.operator, entry.ssh_user) == ("kill", "tree", "ops@laptop", "root")
    assert entry.at == WALL
    assert entry.verdict == audit.VERIFIED
    assert [target.verified for target in entry.targets] == [True]


def test_an_intent_alone_has_no_result() -> None:
    (entry,) = audit.merge_records([intent()])
    assert entry.verdict == audit.NO_RESULT
    assert "no result" in lines.plain(audit.entry_line(entry, 100))
    assert "recorded the intent and no result" in "\n".join(lines.plain_all(audit.entry_lines(entry, 100)))


def test_refused_and_unverified_are_not_the_same() -> None:
    refused = result("r", ok=False, phase="refused", refusal="uid of 121338 differs")
    failed = result("f", ok=False)
    by_id = {entry.action_id: entry for entry in audit.merge_records([refused, failed])}
    assert by_id["r"].verdict == audit.REFUSED
    assert by_id["f"].verdict == audit.NOT_VERIFIED
    assert "uid of 121338 differs" in "\n".join(lines.plain_all(audit.entry_lines(by_id["r"], 80)))


def test_newest_first_and_undated_last() -> None:
    entries = audit.merge_records([intent("old", WALL - 9), intent("none", None), intent("new", WALL)])
    assert [entry.action_id for entry in entries] == ["new", "old", "none"]


@pytest.mark.parametrize(
    "damage",
    [
        None,
        3,
        "text",
        [],
        {},
        {"action_id": 5},
        {"action_id": "x", "targets": "no", "at": "noon", "left": 3, "ok": "yes"},
    ],
)
def test_damaged_records_neither_raise_nor_hide_the_others(damage: Any) -> None:
    entries = audit.merge_records([damage, intent(), damage, result()])
    good = [entry for entry in entries if entry.action_id == "a"]
    assert [entry.verdict for entry in good] == [audit.VERIFIED]
    assert audit.audit_lines(entries, 80)


records = st.lists(
    st.builds(
        lambda kind, action_id, at, ok: intent(action_id, at) if kind else result(action_id, at, ok=ok),
        st.booleans(),
        st.sampled_from("abc"),
        st.one_of(st.none(), st.floats(0, 2e9)),
        st.booleans(),
    ),
    max_size=8,
)


@given(records)
def test_every_action_once_with_a_result_if_there_is_one(given_records: list[dict[str, Any]]) -> None:
    entries = audit.merge_records(given_records)
    assert {entry.action_id for entry in entries} == {record["action_id"] for record in given_records}
    assert len({entry.action_id for entry in entries}) == len(entries)
    for entry in entries:
        kinds = {record["record"] for record in given_records if record["action_id"] == entry.action_id}
        assert entry.finished == ("result" in kinds)
    dated = [entry.at for entry in entries if entry.at is not None]
    assert dated == sorted(dated, reverse=True)


@given(
    st.permutations([intent("a", WALL), result("a", WALL + 1), intent("b", WALL - 5), result("b", WALL - 4, ok=False)])
)
def test_the_order_of_the_records_does_not_matter(shuffled: list[dict[str, Any]]) -> None:
    straight = [intent("a", WALL), result("a", WALL + 1), intent("b", WALL - 5), result("b", WALL - 4, ok=False)]
    assert audit.merge_records(shuffled) == audit.merge_records(straight)


def test_a_filter_takes_every_word_from_anywhere() -> None:
    (entry,) = audit.merge_records([intent(), result()])
    assert audit.matches(entry, "KILL run.py ops@")
    assert audit.matches(entry, "")
    assert audit.matches(entry, "121338 verified")
    assert not audit.matches(entry, "kill pause")


def test_the_list_as_text() -> None:
    shown = audit.audit_lines(audit.merge_records([intent(), result()]), 120)
    assert shown[0].split() == ["WHEN", "WHO", "ACTION", "OUTCOME", "TARGET"]
    assert shown[1].split("  ")[0] == "2025-11-30 22:41:07"
    assert "ops@laptop as root" in shown[1]
    assert shown[1].endswith("✓ verified      121338 python3 run.py")
    assert audit.audit_lines([], 80) == ["No action is recorded."]


@given(st.text(max_size=50), st.text(max_size=50), st.integers(60, 160))
def test_no_line_is_wider_than_asked_nor_unprintable(operator: str, argument: str, width: int) -> None:
    entries = audit.merge_records(
        [
            intent(
                operator=operator, ssh_user=operator, targets=[row(argv=[argument], reason=operator)], action=operator
            ),
            result(
                ok=False, targets=[row(argv=[argument], reason=operator)], refusal=argument, left=[row(argv=[argument])]
            ),
        ]
    )
    shown = audit.audit_lines(entries, width) + lines.plain_all(audit.entry_lines(entries[0], width))
    for each in shown:
        assert lines.cells(each) <= width
        assert each.isprintable()
