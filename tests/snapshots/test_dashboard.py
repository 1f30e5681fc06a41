"""The dashboard as it looks: a frozen host at two sizes, in dark and light, well and ill."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from console.app import ConsoleApp
from console.host.link import REFUSED, LinkStatus
from console.host.state import GpuDriver, HostState
from tests.scripted import ScriptedLink, failing_state, sample_state, without
from tests.snapshots.dashboard_fixtures import console_on, dashboard, full_history, go_to, own_home, settled

__all__ = ["own_home"]

Compare = Callable[..., bool]
Steps = Callable[[Pilot[Any]], Awaitable[None] | None]


def looks_right(
    snap_compare: Compare,
    app: ConsoleApp,
    size: tuple[int, int],
    *keys: str,
    before: Steps = lambda pilot: None,
) -> bool:
    """Return whether the app, after ``before`` and ``keys``, looks as it is stored."""

    async def run(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        waited = before(pilot)
        if waited is not None:
            await waited
        await pilot.press(*keys)
        await settled(pilot)

    return snap_compare(app, terminal_size=size, run_before=run)


SIZES = [pytest.param((80, 24), id="80x24"), pytest.param((160, 50), id="160x50")]
THEMES = ["dark", "light"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", THEMES)
def test_a_host_at_work(snap_compare: Compare, size: tuple[int, int], theme: str) -> None:
    app = console_on(ScriptedLink(), theme=theme)
    assert looks_right(snap_compare, app, size, before=full_history)


@pytest.mark.parametrize("size", SIZES)
def test_everything_fails_at_once(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = console_on(ScriptedLink(failing_state()))
    assert looks_right(snap_compare, app, size, before=full_history)


@pytest.mark.parametrize("size", SIZES)
def test_stale_data_is_dimmed_with_its_age(snap_compare: Compare, size: tuple[int, int]) -> None:
    app = console_on(ScriptedLink(age_s=7.2))
    assert looks_right(snap_compare, app, size)


def test_a_refused_link_says_why_and_keeps_the_last_data(snap_compare: Compare) -> None:
    link = ScriptedLink(age_s=754.0)

    async def refuse(pilot: Pilot[Any]) -> None:
        await pilot.pause()
        link.state = HostState()
        link.set_status(phase=REFUSED, text="The host key of gpu1 has changed. Ask whoever runs the host", rtt_ms=None)
        await pilot.pause()

    assert looks_right(snap_compare, console_on(link), (120, 34), before=refuse)


def test_before_the_first_data(snap_compare: Compare) -> None:
    link = ScriptedLink(HostState(), LinkStatus("connecting", "Connecting to gpu1", attempt=1), age_s=float("inf"))
    assert looks_right(snap_compare, console_on(link), (80, 24))


def test_the_ghost_of_an_ended_process(snap_compare: Compare) -> None:
    link = ScriptedLink()

    async def end_it(pilot: Pilot[Any]) -> None:
        await go_to(pilot, 98403)
        link.become(without(link.state, 98403))
        dashboard(pilot.app)._take()  # type: ignore[arg-type]
        await pilot.pause()

    assert looks_right(snap_compare, console_on(link), (120, 34), before=end_it)


def test_filtered(snap_compare: Compare) -> None:
    app = console_on(ScriptedLink(), theme="colour-blind")
    assert looks_right(snap_compare, app, (100, 30), "slash", *"python", "enter", "down")


def test_folded_nodes_show_sums(snap_compare: Compare) -> None:
    app = console_on(ScriptedLink(), theme="high-contrast")
    assert looks_right(snap_compare, app, (120, 34), "down", "space")


def test_simulated_gpus_say_so(snap_compare: Compare) -> None:
    state = replace(sample_state(), driver=GpuDriver("ok", "", "580.95.05", "13.0", simulated=True))
    assert looks_right(snap_compare, console_on(ScriptedLink(state)), (120, 34))


def test_a_host_without_gpus(snap_compare: Compare) -> None:
    state = replace(sample_state(), gpus=(), driver=GpuDriver("absent", "No NVIDIA driver is loaded on this host."))
    assert looks_right(snap_compare, console_on(ScriptedLink(state)), (100, 30))


def test_the_help_is_made_of_the_bindings(snap_compare: Compare) -> None:
    app = console_on(ScriptedLink(), keymap={"process.kill": "ctrl+k,f9"})
    assert looks_right(snap_compare, app, (100, 28), "question_mark")


def test_the_theme_picker(snap_compare: Compare) -> None:
    assert looks_right(snap_compare, console_on(ScriptedLink()), (120, 40), "T", "down")
