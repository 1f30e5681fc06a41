"""The dialogs that only read: one process in full, and the host's audit file."""

from __future__ import annotations

from typing import Any

import pytest
from textual.binding import Binding
from textual.widgets import Input, OptionList

from console.agent import protocol
from console.host.errors import LinkError, RequestError
from console.screens.audit import AuditScreen
from console.screens.audit_entry import AuditEntryScreen
from console.screens.detail import DetailScreen
from console.screens.dialog import Dialog, Lines
from console.screens.hostkey import HostKeyScreen
from console.screens.outcome import OutcomeScreen
from console.screens.plan import PlanScreen
from console.screens.secret import SecretScreen
from tests.scripted import CLIENT_PID, identity_of, sample_state
from tests.snapshots.dialog_fixtures import Clock, Host, answering, audit_records, detail_answer, shown_text, until

IDENTITY = identity_of(sample_state(), CLIENT_PID)


def detailed(answer: Any) -> tuple[Host, DetailScreen]:
    screen = DetailScreen(answering(detail=answer), IDENTITY, clock=Clock())
    return Host(screen), screen


async def test_arguments_are_shown_one_a_line_and_never_as_markup() -> None:
    app, screen = detailed(detail_answer())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: screen.detail is not None)
        shown = [line.strip() for line in shown_text(screen).splitlines()]
        assert "Command: 13 arguments, 1 value masked on the host" in shown
        assert "0  python3" in shown and "1  run_inference.py" in shown
        assert "11  two⏎lines [bold]x[/bold]" in shown
        assert "12  (empty)" in shown
        assert any("[red]ODD[/red]" in line for line in shown)
        assert screen._link.requests == [(protocol.DETAIL, {"process": list(IDENTITY)})]


async def test_what_the_host_cannot_tell_is_not_available_and_not_zero() -> None:
    answer = {
        "pid": IDENTITY[1],
        "start_ticks": IDENTITY[2],
        "boot_id": IDENTITY[0],
        "env_names": None,
        "env_note": "not the owner",
    }
    app, screen = detailed(answer)
    async with app.run_test(size=(120, 60)) as pilot:
        await until(pilot, lambda: screen.detail is not None)
        shown = shown_text(screen)
        assert "not the owner" in shown and "The host could not read its arguments." in shown
        for name in ("GPU memory", "I/O", "open files", "switches", "CPU"):
            line = next(line for line in shown.splitlines() if line.startswith(name))
            assert line.split("  ")[-1].strip() == "n/a"


async def test_a_process_that_took_the_pid_is_never_shown() -> None:
    app, screen = detailed(detail_answer(start_ticks=IDENTITY[2] + 1, argv=["intruder"]))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "another process" in shown_text(screen))
        assert screen.detail is None and "intruder" not in shown_text(screen)


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (RequestError("not_found", "Process 121338 has ended."), "Process 121338 has ended."),
        (LinkError("the link is down"), "the link is down."),
        ({"argv": []}, "cannot be understood"),
        (detail_answer(gpu=[{}]), "cannot be understood"),
    ],
)
async def test_a_failure_is_a_sentence_in_place(failure: Any, says: str) -> None:
    app, screen = detailed(failure)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: says in shown_text(screen))
        assert app.screen is screen


async def test_after_the_process_ended_its_last_reading_stays() -> None:
    app, screen = detailed(detail_answer())
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen.detail is not None)
        screen._link.answers["detail"] = lambda **_: (_ for _ in ()).throw(RequestError("not_found", "it has ended"))
        await pilot.press("R")
        await until(pilot, lambda: "it has ended. What is below is what it was." in shown_text(screen))
        assert "run_inference.py" in shown_text(screen)


async def test_the_command_is_copied_quoted_for_a_shell() -> None:
    app, screen = detailed(detail_answer(argv=["python3", "a b", "$x", ""], argv_masked=0))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen.detail is not None)
        await pilot.press("c")
        assert app.clipboard == "python3 'a b' '$x' ''"


async def test_a_long_process_scrolls_by_keys() -> None:
    app, screen = detailed(detail_answer(argv=[f"--flag-{i}" for i in range(200)]))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen.detail is not None)
        body = screen.query_one("#body", Lines)
        await pilot.press("end")
        await until(pilot, lambda: body.scroll_y == body.max_scroll_y > 150)


def audited(answer: Any) -> tuple[Host, AuditScreen]:
    screen = AuditScreen(answering(audit=answer), clock=Clock())
    return Host(screen), screen


ANSWER = {"path": "/host/audit.jsonl", "records": audit_records(), "torn": 1, "error": None}


def rows(screen: AuditScreen) -> list[str]:
    options = screen.query_one(OptionList)
    return [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]


async def test_actions_are_listed_newest_first_with_their_outcome() -> None:
    app, screen = audited(ANSWER)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: len(rows(screen)) == 5)
        kinds = [
            next(k for k in ("not verified", "verified", "no result", "refused") if k in row) for row in rows(screen)
        ]
        assert kinds == ["verified", "not verified", "no result", "refused", "verified"]
        assert "5 actions, 1 record unreadable" in shown_text(screen)
        assert screen._link.requests == [(protocol.AUDIT, {"limit": 500})]


async def test_the_filter_narrows_while_typing_and_escape_clears_it_before_it_closes() -> None:
    app, screen = audited(ANSWER)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: len(rows(screen)) == 5)
        await pilot.press("slash", *"kill")
        await until(pilot, lambda: len(rows(screen)) == 2)
        assert "2 of /host/audit.jsonl: 5 actions" in shown_text(screen)
        await pilot.press("escape")
        await until(pilot, lambda: len(rows(screen)) == 5)
        assert app.focused is screen.query_one(OptionList) and screen.query_one(Input).value == ""
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is not screen)


async def test_enter_shows_the_entry_per_target() -> None:
    app, screen = audited(ANSWER)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: len(rows(screen)) == 5)
        screen.clock.advance(1)
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, AuditEntryScreen))
        await until(pilot, lambda: "did not end within 45 s" in shown_text(app.screen))
        assert "22.0 G → 11.0 G" in shown_text(app.screen)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (LinkError("gpu1 did not answer"), "The audit file was not read: gpu1 did not answer."),
        ({**ANSWER, "records": [], "error": "audit.jsonl: permission denied"}, "audit.jsonl: permission denied"),
        ({"records": 5}, "cannot be understood"),
    ],
)
async def test_an_unreadable_file_is_a_sentence_in_place(answer: Any, says: str) -> None:
    app, screen = audited(answer)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: says in shown_text(screen))
        assert app.screen is screen


@pytest.mark.parametrize(
    "dialog", [PlanScreen, OutcomeScreen, HostKeyScreen, SecretScreen, DetailScreen, AuditScreen, AuditEntryScreen]
)
def test_every_binding_can_be_changed_and_explains_itself(dialog: type[Dialog[Any]]) -> None:
    bindings = [binding for binding in dialog.BINDINGS if isinstance(binding, Binding)]
    assert len(bindings) == len(dialog.BINDINGS) > 0
    assert all(binding.id and binding.tooltip and binding.description for binding in bindings)
    assert len({binding.id for binding in bindings}) == len(bindings)
