"""The whole console on a scripted link, with clocks, time zone and folders of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from console.app import ConsoleApp
from console.screens.dashboard import DashboardScreen
from console.settings import Settings
from console.widgets.gpu_panel import GpuPanel
from tests.scripted import WALL, ScriptedLink


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give each test a config and a state folder of its own, and UTC."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield tmp_path
    monkeypatch.undo()
    time.tzset()


def console_on(link: ScriptedLink, **settings: Any) -> ConsoleApp:
    """Return the console of host gpu1 at the moment of the sample state."""
    return ConsoleApp(lambda prompts: link, host_name="gpu1", settings=Settings(**settings), clock=lambda: WALL)


def dashboard(app: ConsoleApp) -> DashboardScreen:
    """Return the dashboard, whatever is on top of it."""
    return next(screen for screen in app.screen_stack if isinstance(screen, DashboardScreen))


def notices(app: ConsoleApp) -> list[str]:
    """Return what the operator was told."""
    return [notification.message for notification in app._notifications]


def table_text(app: ConsoleApp) -> str:
    """Return the visible lines of the process table."""
    return "\n".join("".join(text for text, _ in line) for line in dashboard(app).table._drawn)


def cursor_pid(app: ConsoleApp) -> int | None:
    """Return the pid under the cursor; None on a ghost."""
    row = dashboard(app).table.cursor.selected
    return row.process.pid if row else None


async def go_to(pilot: Pilot[Any], pid: int) -> None:
    """Put the cursor on ``pid``."""
    table = dashboard(pilot.app).table  # type: ignore[arg-type]
    await until(pilot, lambda: bool(table.cursor.rows))
    table._go(next(index for index, row in enumerate(table.cursor.rows) if row.process.pid == pid))
    await pilot.pause()


async def until(pilot: Pilot[Any], condition: Callable[[], bool], deadline_s: float = 30.0) -> None:
    """Let the app work until ``condition`` holds; an AssertionError after ``deadline_s``."""
    end = asyncio.get_running_loop().time() + deadline_s
    while not condition():
        assert asyncio.get_running_loop().time() < end, "the condition never came true"
        await pilot.pause()
        await asyncio.sleep(0.005)


async def settled(pilot: Pilot[Any], deadline_s: float = 60.0) -> None:
    """Let the app work until the footer is there and three looks in a row show the same."""
    end = asyncio.get_running_loop().time() + deadline_s
    seen: list[str] = []
    while len(seen) < 3 or len(set(seen[-3:])) > 1 or not pilot.app.screen.query("FooterKey"):
        assert asyncio.get_running_loop().time() < end, "the screen never came to rest"
        await pilot.pause()
        await asyncio.sleep(0.02)
        seen.append(pilot.app.export_screenshot(simplify=True))


def full_history(pilot: Pilot[Any]) -> None:
    """Fill the minute of utilisation that a console open for longer has."""
    screen = dashboard(pilot.app)  # type: ignore[arg-type]
    panel = screen.query_one(GpuPanel)
    state = screen._link.state
    for t in range(60):
        busy = [(7 * t + 13 * gpu.index) % 101 for gpu in state.gpus]
        panel.show_state(
            replace(
                state,
                gpus=tuple(
                    replace(gpu, sampled_t=float(t - 60), utilisation_percent=percent)
                    for gpu, percent in zip(state.gpus, busy, strict=True)
                ),
            )
        )
    panel.show_state(state)
