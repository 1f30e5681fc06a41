"""The questions of a connection become dialogs, and what fails becomes a sentence."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from textual.widgets import Input

from console.app import ConsoleApp
from console.app_prompts import AppPrompts
from console.crash import crash_path, record_crash
from console.host.prompts import HostKeyQuestion
from console.screens.dashboard import DashboardScreen
from console.screens.hostkey import HostKeyScreen
from console.screens.secret import SecretScreen
from console.settings import Settings
from tests.scripted import ScriptedLink
from tests.snapshots.dashboard_fixtures import console_on, own_home, until

__all__ = ["own_home"]

QUESTION = HostKeyQuestion("gpu1", 22, "ssh-ed25519", "SHA256:abcdef", "/tmp/known_hosts")


async def test_the_app_hands_its_prompts_to_the_link() -> None:
    given: list[object] = []

    def factory(prompts: object) -> ScriptedLink:
        given.append(prompts)
        return ScriptedLink()

    app = ConsoleApp(factory, host_name="gpu1", settings=Settings())
    assert len(given) == 1 and isinstance(given[0], AppPrompts) and app.link is not None


async def test_a_host_key_that_is_not_accepted_is_not_trusted() -> None:
    app = console_on(ScriptedLink())
    async with app.run_test(size=(120, 40)) as pilot:
        asked = asyncio.create_task(AppPrompts(app).accept_host_key(QUESTION))
        await until(pilot, lambda: isinstance(app.screen, HostKeyScreen))
        await pilot.press("escape")
        assert await asyncio.wait_for(asked, 30) is False


async def test_a_secret_is_returned_as_typed() -> None:
    app = console_on(ScriptedLink())
    async with app.run_test(size=(120, 40)) as pilot:
        asked = asyncio.create_task(AppPrompts(app).secret("Passphrase", "for id_ed25519"))
        await until(pilot, lambda: isinstance(app.screen, SecretScreen))
        app.screen.query_one(Input).value = "s3 cret"
        await until(pilot, lambda: not app.screen.guarded())  # type: ignore[attr-defined]
        await pilot.press("enter")
        assert await asyncio.wait_for(asked, 30) == "s3 cret"


async def test_a_question_that_is_cancelled_leaves_the_screen() -> None:
    app = console_on(ScriptedLink())
    async with app.run_test(size=(120, 40)) as pilot:
        asked = asyncio.create_task(AppPrompts(app).accept_host_key(QUESTION))
        await until(pilot, lambda: isinstance(app.screen, HostKeyScreen))
        asked.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asked
        await until(pilot, lambda: isinstance(app.screen, DashboardScreen))


async def test_a_link_that_fails_is_told_in_a_sentence() -> None:
    class Failing(ScriptedLink):
        async def run(self) -> None:
            raise RuntimeError("boom")

    app = console_on(Failing())
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await until(pilot, lambda: any("The link ended: boom" in n.message for n in app._notifications))
        assert isinstance(app.screen, DashboardScreen)


def test_a_crash_is_a_sentence_and_a_file_without_values(own_home: Path) -> None:
    secret = "hunter2"
    try:
        raise ValueError(f"bad {len(secret)}")
    except ValueError as error:
        said = record_crash(error)
    assert "\n" not in said and "ValueError: bad 7" in said and str(crash_path()) in said
    written = crash_path().read_text()
    assert "Traceback" in written and "raise ValueError" in written


def test_a_crash_that_cannot_be_written_is_still_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = record_crash(ValueError("bad"), tmp_path / "file" / "crash.log")
    assert "cannot be written" in said and "\n" not in said
