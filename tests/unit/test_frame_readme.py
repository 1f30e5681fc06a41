"""The README says what the code does: its keys, its commands, its exit codes, its configuration."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from console import exits
from console.settings import Settings

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
SPELLED = {"slash": "/", "question_mark": "?"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """Return every `eagle3-console …` line of the README, as arguments."""
    lines = [
        shlex.split(line.removeprefix("$ "), comments=True)
        for block in blocks("console")
        for line in block.splitlines()
    ]
    return [words[1:] for words in lines if words and words[0] == "eagle3-console"]


def test_the_two_commands_come_first():
    first = blocks("console")[0]
    assert re.findall(r"^\$ (make \w+)", first, re.MULTILINE) == ["make demo", "make test"]
    assert README.index(first) < 100


def test_the_keys_are_those_of_the_bindings():
    from console.app import ConsoleApp
    from console.keymap import own_bindings
    from console.screens.dashboard import DashboardScreen

    told = dict(re.findall(r"^\| `(\S+)` \| [^|]+ \| `([\w.]+)` \|$", README, re.MULTILINE))
    bound = {SPELLED.get(b.key, b.key): b.id for b in own_bindings((DashboardScreen, ConsoleApp))}
    assert told == bound


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_is_understood(words):
    from console.cli import make_parser

    parsed = make_parser().parse_args(words)
    assert "--host" not in words or parsed.host == words[words.index("--host") + 1]


def test_the_exit_codes_are_those_of_the_code():
    told = {int(code) for code in re.findall(r"^\| (\d+) \| ", README, re.MULTILINE)}
    assert told == {value for name, value in vars(exits).items() if name.isupper()}


@pytest.mark.parametrize("text", blocks("toml"))
def test_the_configuration_is_accepted(text):
    settings = Settings.model_validate(tomllib.loads(text))
    assert settings.hosts["gpu1"].disks == ("/", "/data")


def test_pictures_and_folders_are_there():
    root = Path(__file__).resolve().parents[2]
    named = [*re.findall(r"!\[[^]]*\]\(([^)]+)\)", README), "themes", "console/agent", "console/host", "pipeline"]
    assert [name for name in named if not (root / name).exists()] == []
