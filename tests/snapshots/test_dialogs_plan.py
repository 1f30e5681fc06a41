"""The plan dialog: nothing is sent but what was shown, on purpose, while it is fresh."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Button

from console.agent import protocol
from console.host.errors import LinkError, RequestError
from console.screens.dialog import GUARD_S, Lines
from console.screens.outcome import OutcomeScreen
from console.screens.plan import PlanScreen
from tests.scripted import CLIENT_PID, changed, identity_of, sample_state, without
from tests.snapshots.dialog_fixtures import (
    Clock,
    DialogLink,
    Host,
    answering,
    candidate_row,
    client_rows,
    many_rows,
    outcome_answer,
    plan_answer,
    shown_text,
    until,
)

ROOTS = (identity_of(sample_state(), CLIENT_PID),)


class Opened:
    """A plan dialog on a scripted link, opened in an app."""

    def __init__(self, link: DialogLink, action: str = "pause", **options: Any) -> None:
        self.link, self.clock = link, Clock()
        self.screen = PlanScreen(link, action, ROOTS, clock=self.clock, **options)
        self.app = Host(self.screen)

    def run(self, size: tuple[int, int] = (100, 30)) -> Any:
        return self.app.run_test(size=size, notifications=True)

    @property
    def confirm(self) -> Button:
        return self.screen.query_one("#confirm", Button)

    @property
    def text(self) -> str:
        return shown_text(self.screen)

    async def read(self, pilot: Pilot[Any]) -> None:
        """Wait until a plan is on the screen and was painted."""
        await until(pilot, lambda: self.screen.plan is not None and self.confirm.parent is not None)
        await pilot.pause()

    async def settle(self, pilot: Pilot[Any]) -> None:
        """Wait for the plan and let the time of the guard pass."""
        await self.read(pilot)
        self.clock.advance(GUARD_S + 0.1)

    def cancel_has_focus(self) -> bool:
        return self.app.focused is not None and self.app.focused.id == "cancel"


def opened(action: str = "pause", *, plan: Any = None, **options: Any) -> Opened:
    link = answering(plan=plan_answer(action) if plan is None else plan, signal=outcome_answer(action))
    return Opened(link, action, **options)


@pytest.mark.parametrize("action", protocol.ACTIONS)
async def test_cancel_has_the_focus_before_and_after_the_plan_is_there(action: str) -> None:
    gate = asyncio.Event()

    async def slow(**_: Any) -> dict[str, Any]:
        await gate.wait()
        return plan_answer(action)

    dialog = opened(action, plan=slow)
    async with dialog.run() as pilot:
        await until(pilot, lambda: dialog.link.requests != [])
        assert dialog.cancel_has_focus() and dialog.confirm.disabled
        assert "Reading the host" in dialog.text
        gate.set()
        await dialog.read(pilot)
        assert dialog.cancel_has_focus() and not dialog.confirm.disabled


@pytest.mark.parametrize(
    "keys", [("K", "K"), ("K", "enter"), ("enter", "enter"), ("tab", "enter"), ("tab", "enter", "enter", "K")]
)
async def test_double_and_typed_ahead_keys_never_act(keys: tuple[str, ...]) -> None:
    dialog = opened("kill")
    async with dialog.run() as pilot:
        await dialog.read(pilot)
        dialog.clock.advance(GUARD_S - 0.01)
        await pilot.press(*keys)
        await pilot.pause()
        assert dialog.link.sent() == []
        assert dialog.app.screen is dialog.screen


async def test_a_click_before_the_plan_can_have_been_read_never_acts() -> None:
    dialog = opened("kill")
    async with dialog.run() as pilot:
        await dialog.read(pilot)
        dialog.clock.advance(GUARD_S - 0.01)
        await pilot.click("#confirm")
        await pilot.pause()
        assert dialog.link.sent() == [] and dialog.app.screen is dialog.screen
        dialog.clock.advance(0.02)
        await until(pilot, lambda: not dialog.confirm.has_class("-active"))
        await pilot.click("#confirm")
        await until(pilot, lambda: len(dialog.link.sent()) == 1)


async def test_a_new_plan_takes_the_focus_back_to_cancel_from_wherever_it_was() -> None:
    dialog = opened("kill", plan=plan_answer("kill", targets=many_rows(300)))
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        await pilot.press("shift+tab")
        await until(pilot, lambda: isinstance(dialog.app.focused, Lines))
        await pilot.press("R")
        await until(pilot, dialog.cancel_has_focus)
        assert len(dialog.link.requests) == 2


async def test_cancelling_twice_closes_this_screen_alone() -> None:
    dialog = opened()
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        below = PlanScreen(dialog.link, "pause", ROOTS, clock=dialog.clock)
        await dialog.app.push_screen(below)
        below.action_cancel()
        below.action_cancel()
        await pilot.pause()
        assert dialog.app.screen is dialog.screen


@pytest.mark.parametrize("key", ["p", "r", "t", "K", "y", "space", "ctrl+j"])
async def test_no_other_key_than_the_button_confirms(key: str) -> None:
    dialog = opened("kill")
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        await pilot.press("tab", key, key)
        await pilot.pause()
        assert dialog.link.sent() == []


async def test_an_enter_typed_before_the_plan_appeared_and_read_later_is_dropped() -> None:
    dialog = opened("kill")
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        await pilot.press("tab")
        late = events.Key("enter", "\r")
        late.time -= 1.0
        dialog.app.post_message(late)
        await pilot.pause()
        assert dialog.link.sent() == [] and dialog.app.screen is dialog.screen
        await pilot.press("enter")
        await until(pilot, lambda: len(dialog.link.sent()) == 1)


async def test_confirming_sends_exactly_what_was_shown_though_the_host_changes_meanwhile() -> None:
    dialog = opened("kill")
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        shown = dialog.text
        state = changed(
            without(sample_state(), 121340), CLIENT_PID, argv=("evil",), argv_digest="other", uid=7, start_ticks=1
        )
        dialog.link.become(state)
        await pilot.pause()
        assert dialog.text == shown
        await pilot.press("tab", "enter")
        await until(pilot, lambda: dialog.link.sent() != [])
        (sent,) = dialog.link.sent()
        assert sent["targets"] == [
            {
                "id": [row["boot_id"], row["pid"], row["start_ticks"]],
                "uid": row["uid"],
                "argv_digest": row["argv_digest"],
            }
            for row in client_rows("kill")
        ]
        assert (sent["action"], sent["scope"], sent["roots"]) == ("kill", "tree", [list(ROOTS[0])])
        assert isinstance(dialog.app.screen, OutcomeScreen) and dialog.app.result is True


async def test_two_presses_of_the_button_send_once() -> None:
    dialog = opened("kill")
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        dialog.screen.post_message(Button.Pressed(dialog.confirm))
        dialog.screen.post_message(Button.Pressed(dialog.confirm))
        await until(pilot, lambda: isinstance(dialog.app.screen, OutcomeScreen))
        await pilot.pause()
        assert len(dialog.link.sent()) == 1


@pytest.mark.parametrize("key", ["escape", "enter"])
async def test_cancelling_sends_nothing_and_closes_one_screen(key: str) -> None:
    dialog = opened()
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        await pilot.press(key, key)
        await until(pilot, lambda: dialog.app.result is not None and dialog.app.result != "nothing yet")
        assert dialog.app.result is False
        assert dialog.link.sent() == [] and len(dialog.app.screen_stack) == 1


def _stale(dialog: Opened) -> None:
    dialog.link.age_s = 7.0


def _never_reported(dialog: Opened) -> None:
    dialog.link.age_s = None


def _down(dialog: Opened) -> None:
    dialog.link.set_status(phase="waiting")


def _old(dialog: Opened) -> None:
    dialog.clock.advance(61)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [(_stale, "data is 7 s old"), (_never_reported, "not reported"), (_down, "link is down"), (_old, "s ago: re-read")],
)
async def test_stale_data_a_lost_link_and_an_old_plan_disable_the_button(
    spoil: Callable[[Opened], None], reason: str
) -> None:
    dialog = opened("kill")
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        await pilot.press("tab")
        assert dialog.confirm.has_focus
        spoil(dialog)
        await pilot.press("enter")
        await until(pilot, lambda: dialog.confirm.disabled)
        assert dialog.cancel_has_focus()
        assert reason in dialog.text
        assert dialog.link.sent() == [] and dialog.app.screen is dialog.screen


async def test_an_old_plan_may_be_confirmed_after_it_was_read_again_and_not_at_once() -> None:
    dialog = opened("kill")
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        dialog.clock.advance(61)
        await until(pilot, lambda: dialog.confirm.disabled)
        await pilot.press("R")
        await until(pilot, lambda: len(dialog.link.requests) == 2)
        await dialog.read(pilot)
        await pilot.press("tab", "enter")
        await pilot.pause()
        assert dialog.link.sent() == []
        dialog.clock.advance(GUARD_S + 0.1)
        await pilot.press("enter")
        await until(pilot, lambda: len(dialog.link.sent()) == 1)


async def test_the_age_of_the_plan_is_shown() -> None:
    dialog = opened()
    async with dialog.run() as pilot:
        await dialog.read(pilot)
        dialog.clock.advance(12)
        frame = dialog.screen.query_one("#dialog")
        await until(pilot, lambda: "read 12 s ago" in str(frame.border_subtitle))
        assert "Pause on gpu1" in str(frame.border_title)


async def test_a_refusal_cannot_be_confirmed() -> None:
    dialog = opened("kill", plan=plan_answer("kill", refusal="121338 is the console's own agent"))
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        assert "Refused: 121338 is the console's own agent" in dialog.text
        dialog.screen.post_message(Button.Pressed(dialog.confirm))
        await pilot.press("tab")
        assert dialog.confirm.disabled and dialog.cancel_has_focus()
        await pilot.press("enter")
        await until(pilot, lambda: dialog.app.result is False)
        assert dialog.link.sent() == []


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (RequestError("not_found", "no process 121338 any more."), "no process 121338 any more. R reads"),
        (LinkError("gpu1 did not answer"), "gpu1 did not answer"),
        ({"action": "pause"}, "cannot be understood"),
        (plan_answer(targets=[{"pid": 1, "argv": []}]), "cannot be understood"),
    ],
)
async def test_a_plan_that_is_not_made_is_one_sentence_in_place(failure: Any, says: str) -> None:
    dialog = opened(plan=failure)
    async with dialog.run() as pilot:
        await until(pilot, lambda: says in " ".join(dialog.text.split()))
        assert dialog.confirm.disabled and dialog.cancel_has_focus()
        assert "Traceback" not in dialog.text


async def test_the_scope_is_read_anew() -> None:
    dialog = opened(plan=lambda **asked: plan_answer(scope=asked["scope"]))
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        await pilot.press("tab", "o")
        await until(pilot, lambda: len(dialog.link.requests) == 2)
        await dialog.settle(pilot)
        assert dialog.cancel_has_focus() and "only what you chose" in dialog.text
        await pilot.press("o")
        await until(pilot, lambda: len(dialog.link.requests) == 3)
        assert [asked["scope"] for _, asked in dialog.link.requests] == ["tree", "only", "tree"]


async def test_candidates_are_taken_in_as_roots_of_a_new_plan_only_on_demand() -> None:
    extra = candidate_row()
    identity = [extra["boot_id"], extra["pid"], extra["start_ticks"]]

    def plan(**asked: Any) -> dict[str, Any]:
        taken = identity in asked["roots"]
        rows = client_rows("pause") + ([extra] if taken else [])
        return plan_answer(targets=rows, candidates=[] if taken else [extra], roots=asked["roots"])

    dialog = opened(plan=plan)
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        assert "Related GPU holders, not included" in dialog.text
        await pilot.press("a")
        await until(pilot, lambda: len(dialog.link.requests) == 2)
        await dialog.settle(pilot)
        assert "Related" not in dialog.text
        await pilot.press("a", "tab", "enter")
        await until(pilot, lambda: dialog.link.sent() != [])
        (sent,) = dialog.link.sent()
        assert sent["roots"] == [list(ROOTS[0]), identity]
        assert [target["id"] for target in sent["targets"]][-1] == identity


async def test_the_grace_of_a_stop_is_set_in_steps_and_sent() -> None:
    dialog = opened("stop")
    async with dialog.run() as pilot:
        await dialog.settle(pilot)
        await pilot.press("plus", "plus", "minus", "plus")
        assert "waits up to 55 s for all 3 to end" in dialog.text
        await pilot.press(*["minus"] * 11)
        assert "waits up to 5 s" in dialog.text
        await pilot.press("tab", "enter")
        await until(pilot, lambda: dialog.link.sent() != [])
        assert dialog.link.sent()[0]["grace_s"] == 5.0


@pytest.mark.parametrize("size", [(80, 24), (100, 30), (200, 60), (60, 15)])
async def test_300_targets_scroll_and_the_buttons_stay_in_sight(size: tuple[int, int]) -> None:
    dialog = opened("kill", plan=plan_answer("kill", targets=many_rows(300), warnings=["one", "two"]))
    async with dialog.run(size) as pilot:
        await dialog.settle(pilot)
        await pilot.pause()
        targets = dialog.screen.query_one("#targets", Lines)
        assert "300 processes" in dialog.text
        await pilot.press("end")
        await until(pilot, lambda: targets.scroll_y == targets.max_scroll_y and targets.max_scroll_y > 200)
        await pilot.press("home", "pagedown", "down")
        assert 0 < targets.scroll_y < 100
        for button in dialog.screen.query(Button):
            assert button.region.height >= 1
            assert dialog.app.screen.region.contains_region(button.region)
            assert dialog.app.screen.get_widget_at(*button.region.offset)[0] is button
        await pilot.press("tab", "enter")
        await until(pilot, lambda: dialog.link.sent() != [])
        assert len(dialog.link.sent()[0]["targets"]) == 300


async def test_markup_of_the_host_is_shown_as_it_is() -> None:
    rows = client_rows("pause")
    rows[0]["argv"] = ["python3", "[bold red]x[/]", "[@click=app.quit]y[/]"]
    dialog = opened(
        plan=plan_answer(targets=rows, warnings=["[reverse]w[/reverse]"], spared=[{**rows[0], "user": "[u]"}])
    )
    dialog.link.name = "[gpu]1"
    async with dialog.run((140, 40)) as pilot:
        await dialog.read(pilot)
        assert "python3 '[bold red]x[/]' [@click=app.quit]y[/]" in dialog.text
        assert "⚠ [reverse]w[/reverse]" in dialog.text and "([u])" in dialog.text
        assert dialog.screen.query_one("#dialog")._border_title.plain == "Pause on [gpu]1"


async def test_a_command_can_be_seen_whole() -> None:
    rows = client_rows("pause")
    rows[0]["argv"] = ["python3", "x" * 300, "the-end"]
    dialog = opened(plan=plan_answer(targets=rows))
    async with dialog.run((80, 24)) as pilot:
        await dialog.read(pilot)
        assert "the-end" not in dialog.text
        await pilot.press("w")
        await pilot.pause()
        assert "the-end" in dialog.text and dialog.cancel_has_focus()
