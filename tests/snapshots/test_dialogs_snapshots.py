"""The dialogs as they look, frozen: a change of a single cell is seen in review."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from console.host.action_run import ActionRun
from console.host.actions import plan_from_wire
from console.host.audit import merge_records
from console.host.errors import LinkError
from console.host.prompts import HostKeyQuestion
from console.screens.audit import AuditScreen
from console.screens.audit_entry import AuditEntryScreen
from console.screens.detail import DetailScreen
from console.screens.dialog import Dialog
from console.screens.hostkey import HostKeyScreen
from console.screens.outcome import OutcomeScreen
from console.screens.plan import PlanScreen
from console.screens.secret import SecretScreen
from tests.scripted import CLIENT_PID, identity_of, sample_state
from tests.snapshots.dialog_fixtures import (
    ACTION_ID,
    Clock,
    Host,
    answering,
    audit_records,
    candidate_row,
    client_rows,
    detail_answer,
    many_rows,
    outcome_answer,
    plan_answer,
    shown_text,
    target_row,
    unfinished_stop,
    until,
)

SIZES = [(80, 24), (120, 40)]
ROOTS = (identity_of(sample_state(), CLIENT_PID),)
WARNINGS = [
    "121338 is not in a session of its own: when its shell ends, the kernel wakes it up",
    "131072 holds 11 G on GPU 5: paused for more than 8 min, it dies by NCCL's timeout when it is resumed",
]
Ready = Callable[[Pilot[Any]], Awaitable[None]]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def plan(action: str, **answer: Any) -> PlanScreen:
    return PlanScreen(answering(plan=plan_answer(action, **answer)), action, ROOTS, clock=Clock())


def outcome(action: str, signal: Any, **answers: Any) -> OutcomeScreen:
    link, clock = answering(signal=signal, **answers), Clock()
    run = ActionRun(link, plan_from_wire(plan_answer(action)), action_id=ACTION_ID, clock=clock)
    return OutcomeScreen(run, "gpu1", lambda roots: PlanScreen(link, "kill", roots, clock=clock), clock=clock)


async def forever(**_: Any) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


async def started(pilot: Pilot[Any]) -> None:
    """Let the host of an unanswered stop tell its progress, and 12 s pass."""
    screen = pilot.app.screen
    assert isinstance(screen, OutcomeScreen)
    rows = client_rows("stop")
    targets = [
        target_row(rows[0], sent="SIGTERM", after="S", verified=False),
        target_row(rows[1], sent=None, after="gone", verified=True),
        target_row(rows[2], sent=None, after="S", verified=False),
    ]
    link = screen._run._link
    await until(pilot, lambda: link.sent() != [])
    link.emit({"ev": "action", **outcome_answer("stop", ok=False, done=False, phase="waiting", targets=targets)})
    screen.clock.advance(12)
    await until(pilot, lambda: "12 s of 45" in shown_text(screen))


REFUSAL = "121338 belongs to mona (uid 1000) and the agent runs as ops (uid 1001), which may not signal it"
REFUSED = outcome_answer(
    "pause",
    ok=False,
    phase="refused",
    refusal="argv of 121338 differs from what you were shown",
    targets=[target_row(row, sent=None, after=None, verified=False) for row in client_rows("pause")],
)
UNKNOWN = outcome_answer("kill", ok=False, phase="unknown", targets=[])
QUESTION = HostKeyQuestion(
    "gpu1.example.org",
    2222,
    "ssh-ed25519",
    "SHA256:uNiVztksCsDhcc0u9e8BrrYXVGDV5S5hjh8sZ1F0bXY",
    "/home/ops/.config/eagle3-console/known_hosts",
)

DIALOGS: dict[str, tuple[Callable[[], Dialog[Any]], str]] = {
    "plan_pause": (lambda: plan("pause", warnings=WARNINGS, candidates=[candidate_row()]), "Pause 3 processes"),
    "plan_stop": (lambda: plan("stop"), "Terminate 3 processes"),
    "plan_kill_300": (lambda: plan("kill", targets=many_rows(300)), "300 processes"),
    "plan_refused": (lambda: plan("kill", refusal=REFUSAL), "Refused"),
    "plan_failed": (
        lambda: PlanScreen(answering(plan=LinkError("gpu1 did not answer within 15 s")), "kill", ROOTS, clock=Clock()),
        "did not answer",
    ),
    "outcome_pause": (lambda: outcome("pause", outcome_answer("pause")), "Paused"),
    "outcome_waiting": (lambda: outcome("stop", forever), "compares"),
    "outcome_left": (lambda: outcome("stop", unfinished_stop(audit="No space left on device")), "Left alive"),
    "outcome_refused": (lambda: outcome("pause", REFUSED), "Refused"),
    "outcome_unknown": (
        lambda: outcome("kill", LinkError("broke"), fate={"outcome": UNKNOWN}),
        "look at the processes",
    ),
    "hostkey": (lambda: HostKeyScreen(QUESTION, clock=Clock()), "SHA256"),
    "secret": (
        lambda: SecretScreen("Passphrase", "Passphrase of /home/ops/.ssh/id_ed25519:", clock=Clock()),
        "Passphrase of",
    ),
    "detail": (lambda: DetailScreen(answering(detail=detail_answer()), ROOTS[0], clock=Clock()), "run_inference"),
    "audit": (
        lambda: AuditScreen(
            answering(audit={"path": "/host/audit.jsonl", "records": audit_records(), "torn": 1, "error": None}),
            clock=Clock(),
        ),
        "5 actions",
    ),
    "audit_entry": (lambda: AuditEntryScreen(merge_records(audit_records())[1], "gpu1"), "did not end"),
}


def settled(screen: Dialog[Any], told: str) -> Ready:
    """Return what waits until ``screen`` shows ``told`` and its keys."""

    async def wait(pilot: Pilot[Any]) -> None:
        for field in screen.query(Input):
            field.cursor_blink = False
        await until(
            pilot, lambda: told in shown_text(screen) or any(told in str(b.label) for b in screen.query("Button"))
        )
        await until(pilot, lambda: len(screen.query("FooterKey")) > 0)
        frame = screen.query_one("#dialog")
        if screen_has_read(screen):
            await until(pilot, lambda: "read 0 s ago" in str(frame.border_subtitle))
        if told == "compares":
            await started(pilot)
        await pilot.pause()

    return wait


def screen_has_read(screen: Dialog[Any]) -> bool:
    return getattr(screen, "plan", None) is not None or getattr(screen, "detail", None) is not None


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", DIALOGS)
def test_dark(snap_compare: Any, name: str, size: tuple[int, int]) -> None:
    make, told = DIALOGS[name]
    screen = make()
    assert snap_compare(Host(screen), terminal_size=size, run_before=settled(screen, told))


@pytest.mark.parametrize("name", ["plan_pause", "outcome_left"])
def test_light(snap_compare: Any, name: str) -> None:
    make, told = DIALOGS[name]
    screen = make()
    assert snap_compare(Host(screen, "textual-light"), terminal_size=(120, 40), run_before=settled(screen, told))


def test_a_large_terminal(snap_compare: Any) -> None:
    make, told = DIALOGS["plan_kill_300"]
    screen = make()
    assert snap_compare(Host(screen), terminal_size=(200, 60), run_before=settled(screen, told))


def test_whole_commands(snap_compare: Any) -> None:
    screen = plan("kill")

    async def wrapped(pilot: Pilot[Any]) -> None:
        await settled(screen, "Kill 3 processes")(pilot)
        await pilot.press("w")
        await until(pilot, lambda: "spawn_main(tracker_fd=7)" in "".join(shown_text(screen).split()))
        await pilot.pause()

    assert snap_compare(Host(screen), terminal_size=(80, 24), run_before=wrapped)
