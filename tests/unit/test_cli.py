"""The command line: help is quick and complete; bad input is one sentence, exit code 2, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.cli import EXIT_CODES, main

REPOSITORY = Path(__file__).parents[2]
COMMANDS = ["ps", "gpus", "audit", "doctor", "pause", "resume", "stop", "kill", "demo"]
ACTIONS = ["pause", "resume", "stop", "kill"]

BAD_PIDS = ["0", "-1", "abc", "1e3", "1.5", "0x10", "", " ", "१२", "9" * 30, "12,13", "+5", "1_000"]
BAD_GRACES = ["nan", "0", "-1", "inf", "-inf", "abc", "", "1e9", "45s", "86401"]

BAD: list[list[str]] = [
    *(["kill", pid, "--yes"] for pid in BAD_PIDS),
    *(["stop", "12", "--yes", "--grace", grace] for grace in BAD_GRACES),
    *(["kill", "12", "--yes", "--start-ticks", ticks] for ticks in ("-1", "abc", "1.5", "9" * 30)),
    *(["audit", "--limit", limit] for limit in ("0", "-5", "many", "1.5")),
    *([action] for action in ACTIONS),
    *([action, "12"] for action in ACTIONS),
    *([action, "12", "--yes", "--only", "--tree"] for action in ACTIONS),
    ["kill", "12", "13", "--yes"],
    ["kill", "--", "-1", "--yes"],
    ["invent"],
    ["Ps"],
    ["kil", "12"],
    [""],
    ["two\nlines"],
    ["ps", "--two\nlines"],
    ["ps", "--invent"],
    ["ps", "a", "b"],
    ["ps", "--jsn"],
    ["--host"],
    ["ps", "--host", "a b"],
    ["ps", "--host", "a\nb"],
    ["ps", "--host", ""],
    ["ps", "--host", "-oProxyCommand=x"],
    ["ps", "--host", "host:port"],
    ["ps", "--host", "host:99999"],
    ["ps", "--host", "@host"],
    ["ps", "--host", "user@"],
    ["ps", "--host", "\x1b[31mred"],
    ["ps", "--config", "/nonexistent/config.toml"],
    ["ps", "--config", "/"],
    ["ps", "--ssh-config", "/nonexistent"],
    ["--json"],
    [],
    ["--config", "/nonexistent/config.toml"],
    ["demo", "--invent"],
    ["demo", "--config", "/nonexistent/config.toml", "--no-ui", "extra"],
]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def code_of(arguments: list[str]) -> int:
    try:
        return main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def complaint(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that bad input is answered with."""
    assert code_of(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("\n") and said.err.count("\n") == 1, said.err
    line = said.err[:-1]
    assert line.isprintable()
    assert line.startswith("eagle3-console")
    assert "Traceback" not in line
    return line


def name_of(arguments: list[str]) -> str:
    return " ".join(arguments)[:60].encode("unicode_escape").decode()


@pytest.mark.parametrize("arguments", BAD, ids=name_of)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert len(complaint(arguments, capsys)) > 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["kill", "0", "--yes"], "'0' is not a pid"),
        (["kill", "abc", "--yes"], "'abc' is not a whole number"),
        (["stop", "12", "--grace", "nan"], "'nan' is not a time in seconds"),
        (["kill", "12"], "kill has no terminal to ask on: look at `ps`, then add --yes"),
        (["kill"], "PID"),
        (["kill", "12", "--only", "--tree"], "not allowed with"),
        ([], "the console needs a terminal"),
        (["invent"], "invent"),
        (["ps", "--ssh-config", "/nonexistent"], "/nonexistent"),
    ],
)
def test_the_sentence_says_what_is_wrong(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in complaint(arguments, capsys)


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('[hosts.box]\nadress = "a"\n', 'unknown key "hosts.box.adress"; did you mean "address"?'),
        ('[hosts.box]\naddress = "a"\nintervall_s = 1\n', 'did you mean "interval_s"?'),
        ("[hosts.box]\n", 'the key "hosts.box.address" is missing'),
        ('[hosts.box]\naddress = "a b"\n', "hosts.box.address"),
        ('[hosts.box]\naddress = "a"\ninterval_s = 0\n', "hosts.box.interval_s"),
        ('[hosts.box]\naddress = "a"\ndisks = ["data"]\n', "absolute paths"),
        ('thme = "dark"\n', 'did you mean "theme"?'),
        ("[hosts\n", "is not valid TOML"),
        ("hosts = 5\n", "hosts"),
        ("[thresholds]\nstale_after_s = nan\n", "stale_after_s"),
    ],
)
@pytest.mark.parametrize("command", [["ps"], ["kill", "12", "--yes"], ["doctor"]], ids=lambda command: command[0])
def test_a_broken_configuration_names_file_and_key(
    toml: str, words: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(toml)
    line = complaint([*command, "--config", str(path), "--host", "box"], capsys)
    assert words in line
    assert str(path) in line


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a\0b", b'theme = "\x1b[31m\n'])
def test_a_configuration_that_is_no_text(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    assert str(path) in complaint(["ps", "--config", str(path)], capsys)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of([command, "--help"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith(f"usage: eagle3-console {command}")
    if command in ACTIONS:
        for word in ("PID", "--only", "--tree", "--start-ticks", "--yes", "--json", "--host"):
            assert word in said.out
        assert " ".join(EXIT_CODES.split()) in " ".join(said.out.split())


def test_the_first_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f" {command} " in out for command in COMMANDS)
    assert code_of(["--version"]) == 0
    assert capsys.readouterr().out.startswith("eagle3-console ")


HEAVY = ("textual", "rich", "asyncssh", "pydantic", "httpx", "cryptography", "psutil", "pynvml", "asyncio", "torch")

LOADED = """
import json, sys
from MODULE import main
try:
    main(["--help"])
except SystemExit:
    pass
print("\\n" + json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.mark.parametrize("module", ["console.cli", "pipeline.cli"])
def test_help_loads_nothing_heavy(module: str) -> None:
    command = [sys.executable, "-c", LOADED.replace("MODULE", module)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert not set(loaded) & set(HEAVY)
    assert module.partition(".")[0] in loaded


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console.cli", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "arguments", [("kill", "abc"), ("kill", "12"), (), ("ps", "--host", "a b"), ("ps", "--config", "/nonexistent")]
)
def test_bad_input_to_the_real_program(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("eagle3-console") and done.stderr.count("\n") == 1


def test_the_pipeline_says_that_it_has_no_stage() -> None:
    command = [sys.executable, "-m", "pipeline.cli", "train", "--config", "x.toml"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'train'" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["kill", "--help"], ["--version"]], ids=" ".join)
def test_a_reader_that_went_away_is_no_error(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "console.cli", *arguments]
    # Buffered, as Python writes into a pipe by itself.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, cwd=REPOSITORY, env=env, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
