"""Who stopped what: told to the console once, and an alarm only when a promise of a console was broken."""

from __future__ import annotations

from typing import Any

import pytest

from console.agent.ancestry import Key
from console.agent.pauses import RECALL_S, Pauses

KEY: Key = (60, 6)
BOOT = "boot"


class Host:
    """Pauses with an audit file that is a list, and a clock."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.reads = 0
        self.pauses = Pauses(BOOT, self._read)
        self.wall = 1000.0

    def _read(self) -> list[dict[str, Any]]:
        self.reads += 1
        return self.records

    def record(self, action: str, kind: str = "result", at: float | None = None, key: Key = KEY, **more: Any) -> None:
        targets = [{"pid": key[0], "start_ticks": key[1]}]
        made = {"record": kind, "action": action, "at": self.wall if at is None else at, "boot_id": BOOT}
        self.records.append({**made, "operator": "ann@desk", "action_id": "a1", "targets": targets, **more})

    def sees(self, *states: str, key: Key = KEY) -> tuple[list[dict[str, Any]] | None, list[str]]:
        """Return (list, texts of alerts) of the last of readings in which ``key`` has ``states`` ("" for none)."""
        for state in states:
            self.wall += 1
            current, alerts = self.pauses.check({key: (state, "python run.py")} if state else {}, self.wall)
        return current, [alert["text"] for alert in alerts]


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_pause_of_ours_is_told_once_with_who_and_since_when(host: Host) -> None:
    host.pauses.begin([KEY], "ann@desk", "a1", 1000.5)
    pause = {"pid": 60, "start_ticks": 6, "since": 1000.5, "by": "ann@desk", "action_id": "a1"}
    assert host.sees("T") == ([pause], [])
    assert host.sees("T") == (None, [])
    assert host.pauses.of(KEY) == pause
    assert host.pauses.tracked() == [KEY]
    assert host.reads == 0, "the audit file is not read for what is known"


def test_its_end_is_told_too(host: Host) -> None:
    host.pauses.begin([KEY, (61, 7)], "ann@desk", "a1", 1000.5)
    host.pauses.check({KEY: ("T", "a"), (61, 7): ("T", "b")}, 1001.0)
    host.pauses.end([KEY])
    current, alerts = host.pauses.check({(61, 7): ("T", "b")}, 1002.0)
    assert ([row["pid"] for row in current or ()], alerts) == ([61], [])
    host.pauses.end([(61, 7)])
    assert host.pauses.check({}, 1003.0) == ([], [])
    assert host.pauses.check({}, 1004.0) == (None, [])


def test_a_wake_up_by_itself_is_an_alarm_once(host: Host) -> None:
    host.pauses.begin([KEY], "ann@desk", "a1", 1000.5)
    host.sees("T")
    current, (text,) = host.sees("S")
    assert current == []
    assert text.startswith("60 runs again by itself") and "ann@desk" in text and "python run.py" in text
    assert host.sees("S") == (None, [])


@pytest.mark.parametrize("state", ["Z", "X", ""])
def test_an_end_while_paused_is_an_alarm(host: Host, state: str) -> None:
    host.pauses.begin([KEY], "ann@desk", "a1", 1000.5)
    host.sees("T")
    current, (text,) = host.sees(state)
    assert current == []
    assert text.startswith("60 ended while it was paused by ann@desk")


@pytest.mark.parametrize("action", ["resume", "stop", "kill"])
@pytest.mark.parametrize("kind", ["intent", "result"])
def test_another_console_may_end_a_pause(host: Host, action: str, kind: str) -> None:
    host.pauses.begin([KEY], "ann@desk", "a1", 1000.5)
    host.sees("T")
    host.record(action, kind)
    assert host.sees("S") == ([], [])


@pytest.mark.parametrize(
    "record",
    [
        {"action": "resume", "at": 1000.0},
        {"action": "resume", "key": (60, 7)},
        {"action": "resume", "boot_id": "earlier"},
        {"action": "pause"},
    ],
    ids=["earlier", "another process", "another boot", "another pause"],
)
def test_what_explains_no_wake_up_silences_no_alarm(host: Host, record: dict[str, Any]) -> None:
    host.pauses.begin([KEY], "ann@desk", "a1", 1000.5)
    host.sees("T")
    host.record(**record)
    assert len(host.sees("S")[1]) == 1


def test_what_an_action_stopped_during_the_reading_did_not_wake(host: Host) -> None:
    tracked = host.pauses.tracked()
    host.pauses.begin([KEY], "ann@desk", "a1", 1000.5)
    current, alerts = host.pauses.check({}, 1001.0, tracked)
    assert alerts == []
    assert [row["by"] for row in current or ()] == ["ann@desk"]
    assert host.pauses.check({KEY: ("S", "x")}, 1002.0, host.pauses.tracked())[1] != []


def test_a_stop_by_a_shell_or_a_debugger_is_listed_without_alarm(host: Host) -> None:
    current, alerts = host.sees("T")
    assert ([(row["by"], row["since"]) for row in current or ()], alerts) == ([("", 1001.0)], [])
    assert host.sees("S") == ([], [])
    assert host.sees("t")[0] != []


def test_who_paused_it_is_recalled_from_the_audit_file(host: Host) -> None:
    host.record("pause", at=900.0)
    current, _ = host.sees("T")
    assert [(row["by"], row["since"], row["action_id"]) for row in current or ()] == [("ann@desk", 900.0, "a1")]
    assert len(host.sees("S")[1]) == 1


def test_a_result_that_is_written_after_the_stop_was_seen_is_found(host: Host) -> None:
    assert [row["by"] for row in host.sees("T")[0] or ()] == [""]
    host.record("pause")
    assert [row["by"] for row in host.sees("T")[0] or ()] == ["ann@desk"]


def test_the_audit_file_is_not_asked_for_ever(host: Host) -> None:
    for _ in range(40):
        host.sees("T")
    assert RECALL_S <= host.reads <= RECALL_S + 2
    assert host.pauses.of(KEY) == {"pid": 60, "start_ticks": 6, "since": 1001.0, "by": "", "action_id": ""}


@pytest.mark.parametrize(
    "records",
    [
        [{"action": "pause", "at": 900.0}, {"action": "resume", "at": 910.0}],
        [{"action": "pause", "at": 900.0, "phase": "refused"}],
        [{"action": "pause", "kind": "intent", "at": 900.0}],
        [{"action": "pause", "at": 900.0, "boot_id": "earlier"}],
        [{"action": "pause", "at": 900.0, "key": (60, 5)}],
    ],
    ids=["resumed since", "refused", "only meant", "another boot", "another process"],
)
def test_what_is_recalled_is_a_pause_that_happened_to_this_process(host: Host, records: list[dict[str, Any]]) -> None:
    for record in records:
        host.record(**record)
    assert [row["by"] for row in host.sees("T")[0] or ()] == [""]
