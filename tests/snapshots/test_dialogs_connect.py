"""The dialogs of a connection: a key is trusted only on purpose, a secret goes to its caller alone."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from textual.widgets import Button, Input

from console.host.prompts import HostKeyQuestion
from console.screens.dialog import GUARD_S
from console.screens.hostkey import HostKeyScreen, key_file
from console.screens.secret import SecretScreen
from tests.snapshots.dialog_fixtures import Clock, Host, shown_text, until

QUESTION = HostKeyQuestion(
    "gpu1.example.org",
    2222,
    "ssh-ed25519",
    "SHA256:uNiVztksCsDhcc0u9e8BrrYXVGDV5S5hjh8sZ1F0bXY",
    "/home/ops/.config/eagle3-console/known_hosts",
)


def asked(question: HostKeyQuestion = QUESTION) -> tuple[Host, HostKeyScreen, Clock]:
    clock = Clock()
    screen = HostKeyScreen(question, clock=clock)
    return Host(screen), screen, clock


async def test_everything_to_compare_is_on_the_screen() -> None:
    app, screen, _ = asked()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        text = shown_text(screen)
        for fact in ("gpu1.example.org port 2222", "ssh-ed25519", QUESTION.fingerprint, QUESTION.store_path):
            assert fact in text
        assert "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub" in text


@pytest.mark.parametrize(
    ("algorithm", "name"),
    [("ssh-ed25519", "ed25519"), ("ssh-rsa", "rsa"), ("ecdsa-sha2-nistp256", "ecdsa")],
)
def test_the_file_to_compare_with_is_that_of_the_algorithm(algorithm: str, name: str) -> None:
    assert key_file(algorithm) == f"/etc/ssh/ssh_host_{name}_key.pub"


@pytest.mark.parametrize(
    ("keys", "wait", "answer"),
    [
        (("enter",), True, False),
        (("escape",), False, False),
        (("tab", "enter"), True, True),
        (("tab", "enter"), False, "nothing yet"),
        (("enter", "enter"), False, "nothing yet"),
        (("y",), True, "nothing yet"),
    ],
)
async def test_the_focus_is_on_no_and_yes_takes_purpose(keys: tuple[str, ...], wait: bool, answer: Any) -> None:
    app, screen, clock = asked()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen._appeared is not None)
        assert app.focused is screen.query_one("#cancel", Button)
        clock.advance(GUARD_S + 0.1 if wait else 0.0)
        await pilot.press(*keys)
        await pilot.pause()
        assert app.result == answer


def secret(title: str, prompt: str, echo: bool = False) -> tuple[Host, SecretScreen, Clock]:
    clock = Clock()
    screen = SecretScreen(title, prompt, echo, clock=clock)
    return Host(screen), screen, clock


@pytest.mark.parametrize("echo", [False, True])
async def test_a_secret_is_returned_and_shown_only_when_it_may_be(echo: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    app, screen, clock = secret("Passphrase of [key]", "Enter it:\x1b[2J", echo)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen._appeared is not None)
        await pilot.press(*"s3cr3t")
        field = screen.query_one(Input)
        assert field.password is not echo and field.suggester is None
        assert ("s3cr3t" in app.export_screenshot()) is echo
        assert "\x1b" not in shown_text(screen)
        await pilot.press("enter")
        assert app.result == "nothing yet"
        clock.advance(GUARD_S + 0.1)
        await pilot.press("enter")
        await until(pilot, lambda: app.result == "s3cr3t")
        assert field.value == ""
    assert "s3cr3t" not in caplog.text + repr(screen)


@pytest.mark.parametrize("keys", [("escape",), ("tab", "enter")])
async def test_giving_up_returns_none(keys: tuple[str, ...]) -> None:
    app, screen, clock = secret("Password", "Password of root:")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen._appeared is not None)
        await pilot.press("a")
        clock.advance(GUARD_S + 0.1)
        await pilot.press(*keys)
        await until(pilot, lambda: app.result is None)


async def test_an_empty_answer_is_an_answer() -> None:
    app, screen, clock = secret("Code", "Code:")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: screen._appeared is not None)
        clock.advance(GUARD_S + 0.1)
        await pilot.press("enter")
        await until(pilot, lambda: app.result == "")


async def test_a_prompt_of_any_length_leaves_the_field_in_sight() -> None:
    screen = SecretScreen("Password", "\n".join(["a long banner"] * 200) + "\nCode:")
    async with Host(screen).run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert screen.region.contains_region(screen.query_one(Input).region)
        assert "Code:" in shown_text(screen)
