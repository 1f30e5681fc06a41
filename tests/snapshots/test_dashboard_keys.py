"""The dashboard as it is worked: keys, cursor, filter, stale data, dialogs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from textual.command import CommandPalette
from textual.widgets import OptionList

from console.agent import protocol
from console.host.link import WAITING
from console.host.state import Alert, HostState
from console.remembered import Remembered, load_remembered
from console.screens import dashboard as dashboard_module
from console.screens.audit import AuditScreen
from console.screens.dashboard import DashboardScreen
from console.screens.detail import DetailScreen
from console.screens.dialog import Lines
from console.screens.help import HelpScreen
from console.screens.plan import PlanScreen
from console.screens.quit import QuitScreen
from console.screens.theme_picker import ThemePicker
from console.widgets.host_bar import HostBar
from console.widgets.link_banner import LinkBanner
from tests.scripted import (
    AGENT_PID,
    CLIENT_PID,
    PAUSED_PID,
    SERVER_PID,
    WALL,
    ScriptedLink,
    changed,
    identity_of,
    process,
    sample_state,
    with_processes,
    without,
)
from tests.snapshots.dashboard_fixtures import (
    console_on,
    cursor_pid,
    dashboard,
    go_to,
    notices,
    own_home,
    table_text,
    until,
)

__all__ = ["own_home"]

SIZE = (120, 40)


async def test_the_cursor_stays_on_its_process_when_rows_move() -> None:
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE) as pilot:
        await go_to(pilot, CLIENT_PID)
        assert dashboard(app).table.cursor.index > 1
        await pilot.press("s")
        link.become(changed(link.state, CLIENT_PID, cpu_percent=5000.0))
        dashboard(app)._take()
        await until(pilot, lambda: dashboard(app).table.cursor.index == 1)
        assert cursor_pid(app) == CLIENT_PID


async def test_no_key_reaches_the_process_that_slid_under_the_cursor() -> None:
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await go_to(pilot, 98403)
        link.become(without(link.state, 98403))
        dashboard(app)._take()
        await until(pilot, lambda: dashboard(app).table.cursor.ghost is not None)
        for key in ("K", "t", "p", "r", "enter"):
            await pilot.press(key)
        assert isinstance(app.screen, DashboardScreen) and link.requests == []
        assert sum("98403 has ended" in notice for notice in notices(app)) == 5
        assert "ended" in table_text(app)
        await pilot.press("down")
        assert cursor_pid(app) == 98404 and "ended" not in table_text(app)


@pytest.mark.parametrize(("key", "action"), [("p", "pause"), ("r", "resume"), ("t", "stop"), ("K", "kill")])
async def test_an_action_opens_the_plan_of_exactly_the_selected_identity(key: str, action: str) -> None:
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE) as pilot:
        await go_to(pilot, CLIENT_PID)
        await pilot.press(key)
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and bool(link.requests))
        op, arguments = link.requests[0]
        assert (op, arguments["action"], arguments["scope"]) == (protocol.PLAN, action, protocol.TREE)
        assert arguments["roots"] == [list(identity_of(link.state, CLIENT_PID))]
        assert not any(op == protocol.SIGNAL for op, _ in link.requests)


async def test_detail_and_audit_open() -> None:
    app = console_on(ScriptedLink())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, DetailScreen))
        app.pop_screen()
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, AuditScreen))


async def test_stale_data_turns_every_action_off_and_says_why() -> None:
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        screen = dashboard(app)
        link.age_s = 7.0
        screen._take()
        await until(pilot, lambda: screen.has_class("-stale"))
        for key in ("p", "r", "t", "K"):
            await pilot.press(key)
        assert app.screen is screen and link.requests == []
        assert sum("process list is 7 s old" in notice for notice in notices(app)) == 4
        assert "The data is 7 s old" in screen.query_one(LinkBanner).text
        assert not screen.active_bindings["K"].enabled
        link.age_s = 0.2
        screen._take()
        await until(pilot, lambda: not screen.has_class("-stale"))
        assert screen.active_bindings["K"].enabled and not screen.query_one(LinkBanner).display
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen))


async def test_a_lost_link_keeps_the_last_data_counts_down_and_reconnects_on_a_key() -> None:
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        screen = dashboard(app)
        await until(pilot, lambda: str(CLIENT_PID) in table_text(app))
        await pilot.press("R")
        assert link.retries == 0
        link.age_s = 61.0
        link.set_status(phase=WAITING, text="The connection to gpu1 broke", attempt=2, retry_in_s=3000.0, rtt_ms=None)
        await until(pilot, lambda: screen.has_class("-stale"))
        assert "The connection to gpu1 broke. What is shown is 1m 01s old" in screen.query_one(LinkBanner).text
        assert re.search(r"next try in (3000|29\d\d) s after 2 tries", screen.query_one(HostBar).text)
        await pilot.press("K", "R")
        assert link.retries == 1 and app.screen is screen
        assert "No action while the link is down: The connection to gpu1 broke." in notices(app)
        # A new conversation starts from an empty state; what was known stays until its first list is whole.
        link.state = replace(HostState(), hello=link.state.hello)
        link.set_status(phase="connecting", text="Connecting to gpu1", retry_in_s=None)
        await pilot.pause()
        assert str(CLIENT_PID) in table_text(app) and screen.has_class("-stale")
        assert cursor_pid(app) == 1


async def test_a_filter_narrows_is_kept_by_enter_and_dropped_by_escape() -> None:
    app = console_on(ScriptedLink())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"RUN_inf")
        await pilot.pause()
        assert cursor_pid(app) == CLIENT_PID
        text = table_text(app)
        assert str(CLIENT_PID) in text and str(AGENT_PID) not in text and "98402" not in text
        await pilot.press("enter")
        assert app.focused is dashboard(app).table and "98402" not in table_text(app)
        assert "1 found" in str(dashboard(app).table.border_title)
        await pilot.press("escape")
        await pilot.pause()
        assert "98402" in table_text(app) and cursor_pid(app) == CLIENT_PID


async def test_letters_typed_into_the_filter_are_never_actions() -> None:
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("slash", *"pKtrq")
        await pilot.pause()
        assert isinstance(app.screen, DashboardScreen) and dashboard(app).table.view.filter == "pKtrq"
        assert "No process matches" in table_text(app)
        await pilot.press("escape")
        await pilot.pause()
        assert dashboard(app).table.view.filter == "" and link.requests == []


async def test_fold_unfold_and_the_way_to_the_parent() -> None:
    app = console_on(ScriptedLink())
    async with app.run_test(size=SIZE) as pilot:
        await go_to(pilot, 98404)
        await pilot.press("left")
        assert cursor_pid(app) == SERVER_PID
        await pilot.press("left")
        await pilot.pause()
        text = table_text(app)
        assert "Σ 10 processes" in text and "594 G" in text and "98404" not in text
        await pilot.press("right", "right")
        await pilot.pause()
        assert cursor_pid(app) == 98402 and "98404" in table_text(app)


async def test_sort_only_gpu_only_mine_and_kernel_threads() -> None:
    app = console_on(ScriptedLink())
    async with app.run_test(size=SIZE) as pilot:
        table = dashboard(app).table
        seen = []
        for _ in range(6):
            seen.append(table.view.sort)
            await pilot.press("s")
        assert seen == ["gpu", "cpu", "rss", "age", "pid", "command"] and table.view.sort == "gpu"
        await pilot.press("g")
        await pilot.pause()
        assert "98402" in table_text(app) and str(CLIENT_PID) not in table_text(app)
        await pilot.press("g", "m")
        await pilot.pause()
        assert str(PAUSED_PID) not in table_text(app) and "only root" in str(table.border_title)
        await pilot.press("m", "e")
        await pilot.pause()
        assert "kthreadd" in table_text(app)


async def test_text_of_the_host_is_never_markup() -> None:
    evil = process(4321, 1, ("[bold red]x[/]", "a\nb\x1b[31m", "[@click=app.quit]q[/]", "日本語", "\udcff"))
    state = with_processes(sample_state(), evil)
    app = console_on(ScriptedLink(state))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        text = table_text(app)
        assert "'[bold red]x[/]' a⏎b␛[31m [@click=app.quit]q[/] 日本語 \ufffd" in text
        await pilot.press("slash", *"[bold", "enter")
        await pilot.pause()
        assert "1 found" in str(dashboard(app).table.border_title) and cursor_pid(app) == 4321


async def test_two_thousand_processes_scroll_to_the_end() -> None:
    many = [process(1000 + n, 1 if n % 7 else 0, f"worker --rank {n}") for n in range(2000)]
    app = console_on(ScriptedLink(with_processes(sample_state(), process(1, 0, "init"), *many)))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("end")
        await pilot.pause()
        table = dashboard(app).table
        assert table.cursor.index == 2000 and table.scroll_offset.y + table.size.height - 2 == 2000
        last = table.cursor.selected
        assert last is not None and str(last.process.pid) in table_text(app).splitlines()[-1]
        await pilot.press("home")
        await pilot.pause()
        assert table.scroll_offset.y == 0 and "COMMAND" in table_text(app).splitlines()[0]


async def test_events_are_shown_together_and_a_change_of_the_link_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_module, "PERIOD_S", 3600.0)
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE) as pilot:
        screen = dashboard(app)
        await until(pilot, lambda: screen.snapshot is not None)
        first = screen.snapshot
        for _ in range(50):
            link.become(changed(link.state, CLIENT_PID, cpu_percent=77.0))
        await pilot.pause()
        assert screen.snapshot is first and screen._pending is not None
        link.set_status(rtt_ms=99.0)
        await until(pilot, lambda: screen.snapshot is not first)
        assert "99 ms" in screen.query_one(HostBar).text and screen._pending is None


async def test_alerts_are_shown_and_dismissed_and_a_new_one_comes_back() -> None:
    link = ScriptedLink(replace(sample_state(), alerts=(Alert("woke", "process 7 woke by itself", WALL - 9),)))
    app = console_on(link)
    async with app.run_test(size=SIZE) as pilot:
        screen = dashboard(app)
        alerts = screen.query_one("#alerts")
        await until(pilot, lambda: bool(alerts.display))
        assert "process 7 woke by itself" in alerts.text and "1 alert" in screen.query_one(HostBar).text
        await pilot.press("x")
        await until(pilot, lambda: not alerts.display)
        link.emit({"ev": "alert", "kind": "woke", "text": "process 8 woke by itself", "at": WALL + 1})
        screen._take()
        await until(pilot, lambda: bool(alerts.display))
        assert "process 8" in alerts.text and "process 7" not in alerts.text


async def test_quit_asks_while_an_action_is_under_way_with_the_focus_on_staying() -> None:
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        link.emit({"ev": "action", "action_id": "a1", "op": "stop", "done": False})
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, QuitScreen))
        assert app.focused is not None and app.focused.id == "stay"
        await pilot.press("ctrl+q", "escape")
        await until(pilot, lambda: isinstance(app.screen, DashboardScreen))
        link.emit({"ev": "action", "action_id": "a1", "op": "stop", "done": True})
        await pilot.press("q")
    assert app.return_code == 0 and link.closed


async def test_the_theme_is_previewed_restored_and_remembered(own_home: Path) -> None:
    app = console_on(ScriptedLink())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("T")
        await until(pilot, lambda: isinstance(app.screen, ThemePicker))
        await pilot.press("down")
        await until(pilot, lambda: app.theme == "light")
        await pilot.press("escape")
        await until(pilot, lambda: app.theme == "dark")
        assert load_remembered() == (Remembered(), "")
        await pilot.press("T", "down")
        await until(pilot, lambda: app.theme == "light")
        await pilot.press("enter")
        await until(pilot, lambda: load_remembered() == (Remembered(theme="light"), ""))
    assert console_on(ScriptedLink()).theme == "light"


async def test_broken_files_of_the_operator_are_told_and_not_fatal(own_home: Path) -> None:
    themes = own_home / "config" / "eagle3-console" / "themes"
    themes.mkdir(parents=True)
    (themes / "mine.toml").write_text("name = 7")
    state = own_home / "state" / "eagle3-console"
    state.mkdir(parents=True)
    (state / "ui.json").write_text("{")
    app = console_on(ScriptedLink(), theme="ligth")
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await pilot.pause()
        told = "\n".join(notices(app))
        assert "mine.toml" in told and "ui.json is ignored" in told and 'did you mean "light"?' in told
        assert app.theme == "dark"


async def test_a_keymap_changes_the_keys_the_footer_and_the_help() -> None:
    link = ScriptedLink()
    app = console_on(link, keymap={"process.kill": "f9"})
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("K")
        await pilot.pause()
        assert isinstance(app.screen, DashboardScreen) and link.requests == []
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        shown = str(app.screen.query_one(Lines)._text.content)
        kill = next(line for line in shown.splitlines() if "process.kill" in line)
        assert kill.split()[0] == "f9" and "tree.up" in shown and "plan.cancel" in shown and "app.quit" in shown
        await pilot.press("escape", "f9")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen))


async def test_the_palette_offers_every_action_and_runs_it() -> None:
    link = ScriptedLink()
    app = console_on(link)
    async with app.run_test(size=SIZE) as pilot:
        await go_to(pilot, CLIENT_PID)
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, CommandPalette))
        options = app.screen.query_one(OptionList)
        await until(pilot, lambda: options.option_count >= 12)
        await pilot.press(*"sigkill")
        await until(pilot, lambda: options.option_count == 1)
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen) and bool(link.requests))
        assert link.requests[0][1]["action"] == "kill"
