"""The outcome dialog: what was sent and verified, what is left, and what became of it when the link broke."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import ProgressBar

from console.agent import protocol
from console.host.action_run import ActionRun
from console.host.actions import plan_from_wire
from console.host.errors import LinkError
from console.screens.dialog import GUARD_S, Lines
from console.screens.outcome import OutcomeScreen
from console.screens.plan import PlanScreen
from tests.snapshots.dialog_fixtures import (
    ACTION_ID,
    Clock,
    DialogLink,
    Host,
    answering,
    client_rows,
    many_rows,
    outcome_answer,
    plan_answer,
    shown_text,
    target_row,
    unfinished_stop,
    until,
)


class Followed:
    """An outcome dialog of a plan that is being carried out."""

    def __init__(self, link: DialogLink, action: str = "stop", **plan: Any) -> None:
        self.link, self.clock = link, Clock()
        self.action_run = ActionRun(
            link, plan_from_wire(plan_answer(action, **plan)), action_id=ACTION_ID, clock=self.clock
        )
        self.screen = OutcomeScreen(self.action_run, "gpu1", self._kill_plan, clock=self.clock)
        self.app = Host(self.screen)

    def _kill_plan(self, roots: Any) -> PlanScreen:
        return PlanScreen(self.link, "kill", roots, clock=self.clock)

    def run(self, size: tuple[int, int] = (100, 30)) -> Any:
        return self.app.run_test(size=size, notifications=True)

    @property
    def text(self) -> str:
        return " ".join(shown_text(self.screen).split())

    async def ended(self, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: self.action_run.finished)
        await pilot.pause()

    def notices(self) -> list[tuple[str, str, str]]:
        return [(n.title, n.message, n.severity) for n in self.app._notifications]


def waiting(link_events: list[dict[str, Any]] | None = None) -> tuple[DialogLink, asyncio.Event]:
    """Return a link whose signal is answered only once the event is set."""
    gate = asyncio.Event()

    async def signal(**_: Any) -> dict[str, Any]:
        await gate.wait()
        return outcome_answer("stop", elapsed_s=20.0, gpu_bytes_before=0, gpu_bytes_after=0)

    return answering(signal=signal, plan=plan_answer("kill")), gate


def progress(phase: str = "waiting", **changes: Any) -> dict[str, Any]:
    rows = client_rows("stop")
    targets = [
        target_row(rows[0], sent="SIGTERM", after="S", verified=False),
        target_row(rows[1], sent=None, after="gone", verified=True),
        target_row(rows[2], sent=None, after="S", verified=False),
    ]
    return {"ev": "action", **outcome_answer("stop", ok=False, done=False, phase=phase, targets=targets, **changes)}


async def test_a_good_end_is_shown_per_target() -> None:
    followed = Followed(answering(signal=outcome_answer("pause")), "pause")
    async with followed.run() as pilot:
        await followed.ended(pilot)
        assert "Paused: 3 processes verified stopped (T) in 12 ms." in followed.text
        assert "121338 ✓ sent SIGSTOP S → T 8 ms" in followed.text
        assert followed.screen.check_action("kill", ()) is False


async def test_a_stop_counts_down_to_the_grace() -> None:
    link, gate = waiting()
    followed = Followed(link)
    async with followed.run() as pilot:
        await until(pilot, lambda: link.sent() != [])
        link.emit(progress())
        followed.clock.advance(12)
        await until(pilot, lambda: "Waiting for exit: 12 s of 45, 1 of 3 gone" in followed.text)
        bar = followed.screen.query_one("#grace", ProgressBar)
        assert bar.display and (bar.progress, bar.total) == (12, 45)
        gate.set()
        await followed.ended(pilot)
        assert not bar.display
        assert "Nothing is left of the set." in followed.text and "GPU memory of the set: 0 B → 0 B" in followed.text


async def test_progress_of_another_action_is_not_shown() -> None:
    link, gate = waiting()
    followed = Followed(link)
    async with followed.run() as pilot:
        await until(pilot, lambda: link.sent() != [])
        link.emit({**progress(), "action_id": "another"})
        await pilot.pause()
        assert "Waiting for exit" not in followed.text
        gate.set()
        await followed.ended(pilot)


async def test_what_is_left_can_be_planned_to_be_killed_and_only_that() -> None:
    left = unfinished_stop()["left"][0]
    followed = Followed(answering(signal=unfinished_stop(), plan=plan_answer("kill", targets=[left])))
    async with followed.run() as pilot:
        await followed.ended(pilot)
        assert "Left alive: 1 process" in followed.text and "Next step: K plans to kill what is left." in followed.text
        await pilot.press("K")
        await until(pilot, lambda: isinstance(followed.app.screen, PlanScreen))
        await until(pilot, lambda: followed.link.requests[-1][0] == protocol.PLAN)
        asked = followed.link.requests[-1][1]
        assert (asked["action"], asked["scope"]) == ("kill", "tree")
        assert asked["roots"] == [[left["boot_id"], left["pid"], left["start_ticks"]]]
        await pilot.press("K", "K", "enter")
        await pilot.pause()
        assert len(followed.link.sent()) == 1


async def test_the_kill_is_offered_while_a_stop_still_waits() -> None:
    link, gate = waiting()
    followed = Followed(link)
    async with followed.run() as pilot:
        await until(pilot, lambda: link.sent() != [])
        link.emit(progress())
        await pilot.pause()
        await pilot.press("K")
        await until(pilot, lambda: link.requests[-1][0] == protocol.PLAN)
        rows = client_rows("stop")
        assert [root[1] for root in link.requests[-1][1]["roots"]] == [rows[0]["pid"], rows[2]["pid"]]
        await pilot.press("escape")
        gate.set()
        await followed.ended(pilot)
        assert followed.app.screen is followed.screen


async def test_closing_the_view_leaves_the_action_running_and_tells_its_end() -> None:
    link, gate = waiting()
    followed = Followed(link)
    async with followed.run() as pilot:
        await until(pilot, lambda: link.sent() != [])
        await pilot.press("escape")
        await until(pilot, lambda: followed.app.screen is not followed.screen)
        assert not followed.action_run.finished
        assert [title for title, _, _ in followed.notices()] == ["Terminate on gpu1"]
        gate.set()
        await until(pilot, lambda: len(followed.notices()) == 2)
        assert followed.notices()[-1] == (
            "Terminate on gpu1",
            "Exited: 3 processes verified gone in 20.0 s.",
            "information",
        )
        assert len(link.sent()) == 1


async def test_an_enter_held_over_the_end_does_not_close_the_result() -> None:
    followed = Followed(answering(signal=outcome_answer("pause")), "pause")
    async with followed.run() as pilot:
        await followed.ended(pilot)
        await until(pilot, lambda: followed.app.focused is not None)
        await pilot.press("enter", "enter")
        assert followed.app.screen is followed.screen
        followed.clock.advance(GUARD_S + 0.1)
        await pilot.press("enter")
        await until(pilot, lambda: followed.app.screen is not followed.screen)
        assert len(followed.link.sent()) == 1


async def test_a_refusal_says_which_field_differed_and_that_nothing_was_sent() -> None:
    rows = client_rows("pause")
    refused = outcome_answer(
        "pause",
        ok=False,
        phase="refused",
        refusal="argv of 121338 differs from what you were shown",
        targets=[target_row(row, sent=None, after=None, verified=False) for row in rows],
    )
    followed = Followed(answering(signal=refused), "pause")
    async with followed.run() as pilot:
        await followed.ended(pilot)
        assert "Refused: argv of 121338 differs from what you were shown. Nothing was sent." in followed.text


async def test_an_action_that_could_not_be_recorded_warns() -> None:
    followed = Followed(answering(signal=outcome_answer("pause", audit="No space left on device")), "pause")
    async with followed.run() as pilot:
        await followed.ended(pilot)
        assert "⚠ The host's audit file has no record of this: No space left on device." in followed.text


def broken(**fate: Any) -> DialogLink:
    """Return a link that breaks on the signal and whose host then tells this fate."""
    link = answering(plan=plan_answer("stop"), fate=fate)

    def signal(**_: Any) -> dict[str, Any]:
        link.set_status(phase="waiting", text="connection lost")
        raise LinkError("connection lost")

    link.answers["signal"] = signal
    return link


FATES = [
    (None, "The request never reached the host: nothing was sent.", False),
    (
        outcome_answer("stop", ok=False, phase="unknown", targets=[]),
        "The host recorded the intent and no result: look at the processes before you repeat it.",
        True,
    ),
    (outcome_answer("stop", elapsed_s=3.0), "Exited: 3 processes verified gone in 3.0 s.", False),
]


@pytest.mark.parametrize(("fate", "says", "again"), FATES, ids=["never", "unknown", "found"])
async def test_a_link_lost_before_the_answer_asks_the_audit_file_and_never_sends_again(
    fate: dict[str, Any] | None, says: str, again: bool
) -> None:
    link = broken(outcome=fate)
    followed = Followed(link)
    async with followed.run() as pilot:
        await until(
            pilot, lambda: "Link lost; asking the host's audit file what became of action ab12…" in followed.text
        )
        assert not followed.action_run.finished
        link.set_status(phase="up", text="")
        await followed.ended(pilot)
        assert says in followed.text
        assert link.requests[-1] == (protocol.FATE, {"action_id": ACTION_ID})
        assert len(link.sent()) == 1
        assert followed.screen.check_action("ask", ()) is again


async def test_an_unknown_fate_can_be_asked_again() -> None:
    link = broken(outcome=FATES[1][0])
    followed = Followed(link)
    async with followed.run() as pilot:
        await until(pilot, lambda: link.status.phase == "waiting")
        link.set_status(phase="up")
        await followed.ended(pilot)
        link.answers["fate"] = lambda **_: {"outcome": outcome_answer("stop")}
        await pilot.press("R")
        await until(pilot, lambda: "Exited: 3 processes" in followed.text)
        assert len(link.sent()) == 1


@pytest.mark.parametrize("size", [(80, 24), (60, 15)])
async def test_300_results_scroll_and_close_stays_in_sight(size: tuple[int, int]) -> None:
    rows = many_rows(300)
    targets = [target_row(row, sent="SIGKILL", after="gone", verified=True) for row in rows]
    followed = Followed(answering(signal=outcome_answer("kill", targets=targets)), "kill", targets=rows)
    async with followed.run(size) as pilot:
        await followed.ended(pilot)
        assert "Killed: 300 processes verified gone" in followed.text
        close = followed.screen.query_one("#close")
        assert close.region.height >= 1 and followed.screen.region.contains_region(close.region)
        lines = followed.screen.query_one("#targets", Lines)
        await pilot.press("pagedown")
        await until(pilot, lambda: lines.scroll_y > 0)
        assert lines.max_scroll_y > 250
