"""The parts of a link that are functions: lines, endings, targets, commands, the bundle."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zlib
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import protocol
from console.host.bootstrap import BOOTSTRAP, build_bundle
from console.host.channel import LineReader
from console.host.connect import HostSpec, make_link, own_chain, start_arguments
from console.host.ending import explain_exit
from console.host.errors import LinkError, LinkRefused, SettingsError
from console.host.prompts import NoPrompts
from console.host.session import find_hello
from console.host.ssh import SshTarget, parse_target, remote_command


@given(lines=st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b" "))), sizes=st.lists(st.integers(1, 9)))
async def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], sizes: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines) + b"the rest"
    chunks = []
    while data:
        size = sizes.pop() if sizes else 7
        chunks.append(data[:size])
        data = data[size:]

    async def read(count: int) -> bytes:
        return chunks.pop(0) if chunks else b""

    reader = LineReader(read)
    assert [await reader.readline() for _ in lines] == [line + b"\n" for line in lines]
    assert await reader.readline() == b"the rest"
    assert await reader.readline() == b""


async def test_a_line_without_end_is_an_error_and_not_all_of_memory() -> None:
    sent = 0

    async def read(count: int) -> bytes:
        nonlocal sent
        sent += count
        return b"x" * count

    with pytest.raises(LinkError, match="more than 1000000 bytes"):
        await LineReader(read, 1_000_000).readline()
    assert sent < 1_200_000


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gpu1", SshTarget("gpu1")),
        (" ops@gpu1 ", SshTarget("gpu1", "ops")),
        ("gpu1.corp:2222", SshTarget("gpu1.corp", None, 2222)),
        ("ops@10.0.0.7:65535", SshTarget("10.0.0.7", "ops", 65535)),
        ("ops@[::1]:2222", SshTarget("::1", "ops", 2222)),
        ("[fe80::1%eth0]", SshTarget("fe80::1%eth0")),
        ("::1", SshTarget("::1")),
        ("ops@corp.example@gpu1", SshTarget("gpu1", "ops@corp.example")),
    ],
)
def test_targets(text: str, target: SshTarget) -> None:
    assert parse_target(text) == target
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "text",
    [
        *("", "@", "@gpu1", "ops@", "gpu1:", "gpu1:0", "gpu1:65536", "gpu1:ssh", "gpu1:²", "[::1", "[::1]2", "[]"),
        *("-oX=y", "-l@gpu1", "a b", "a\nb", "o\x1bps@gpu1", "a'b"),
    ],
)
def test_what_is_no_target(text: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_target(text)
    assert "\n" not in str(error.value)
    assert "\x1b" not in str(error.value)


@given(st.text())
def test_a_target_is_one_or_an_error_with_a_sentence(text: str) -> None:
    try:
        target = parse_target(text)
    except SettingsError as error:
        assert str(error).isprintable() or "\n" not in str(error)
    else:
        assert parse_target(str(target)) == target


@pytest.mark.parametrize("python", ["", "-c", "a\nb", "\x00"])
def test_what_is_no_python(python: str) -> None:
    with pytest.raises(SettingsError):
        remote_command(python)


def test_the_bootstrap_is_safe_in_single_quotes_and_short() -> None:
    assert not set(BOOTSTRAP) & set("'\\!\n")
    assert BOOTSTRAP.isascii()
    assert len(BOOTSTRAP) < 400
    ast.parse(BOOTSTRAP)


def unpack(bundle: bytes) -> dict[str, str]:
    size, _, packed = bundle.partition(b"\n")
    assert int(size) == len(packed)
    return json.loads(zlib.decompress(packed))


def test_the_bundle_holds_the_agent_and_pynvml_and_nothing_of_this_side() -> None:
    modules = unpack(build_bundle())
    assert {"_boot", "console", "console.agent", "console.agent.main", "console.agent.protocol", "pynvml"} <= set(
        modules
    )
    assert "nvmlInit" in modules["pynvml"]
    assert not [name for name in modules if name.startswith("console.host")]


def test_a_module_of_the_bundle_can_be_replaced() -> None:
    modules = unpack(build_bundle({"pynvml": "SIMULATED = True", "console.agent.extra": "x = 1"}))
    assert modules["pynvml"] == "SIMULATED = True"
    assert modules["console.agent.extra"] == "x = 1"


MAIN = """
import importlib, json, sys, pynvml, console
def main():
    try:
        importlib.import_module("console.host")
    except ModuleNotFoundError as error:
        missing = str(error)
    print(json.dumps([pynvml.WHO, pynvml.__file__, console.__file__, missing, sys.stdin.read()]))
    raise RuntimeError("the line below is this one")
"""


def test_the_host_has_other_modules_of_the_same_names(tmp_path: Path) -> None:
    for name in ("pynvml.py", "json.py", "console/__init__.py", "console/host.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("WHO = 'the host'\n" if name != "json.py" else "raise SystemExit('shadowed')\n")
    bundle = build_bundle({"pynvml": "WHO = 'bundle'", "console.agent.main": MAIN})
    command = [sys.executable, "-u", "-c", BOOTSTRAP]
    done = subprocess.run(command, input=bundle + b"requests\n", capture_output=True, cwd=tmp_path, timeout=60)
    who, nvml_file, console_file, missing, rest = json.loads(done.stdout)
    assert (who, rest) == ("bundle", "requests\n")
    assert nvml_file == "<eagle3-console>/pynvml.py"
    assert console_file == "<eagle3-console>/console/__init__.py"
    assert "console.host" in missing
    assert b'raise RuntimeError("the line below is this one")' in done.stderr, "a traceback shows source lines"


@pytest.mark.parametrize(
    ("status", "stderr", "kind", "words"),
    [
        (127, "bash: line 1: exec: python3: not found", LinkRefused, "python3 was not found on gpu1"),
        (1, "python3: Command not found.", LinkRefused, "python3 was not found on gpu1"),
        (127, "fish: Unknown command: python3\nfish: \nexec python3 -u\n     ^~~~~^", LinkRefused, "was not found"),
        (126, "bash: /opt/python3: Permission denied", LinkRefused, "permission denied"),
        (1, "This account is currently not available.", LinkRefused, "lets this user run no command"),
        (254, "This service allows sftp connections only.", LinkRefused, "sftp connections only"),
        (1, "Traceback (most recent call last):\nImportError: no zlib", LinkRefused, "ImportError: no zlib"),
        (255, "quota exceeded", LinkError, "ended by"),
        (-9, "", LinkError, "ended by SIGKILL"),
        (137, "Killed", LinkError, "ended by SIGKILL: “Killed”"),
        (None, "", LinkError, "broke before the agent answered"),
        (5, "", LinkRefused, "exit status 5"),
        (0, "", LinkRefused, "exit status 0"),
    ],
)
def test_endings_before_the_first_line(status: int | None, stderr: str, kind: type, words: str) -> None:
    error = explain_exit(status, stderr, "python3", "gpu1")
    assert type(error) is kind
    assert words in str(error)


def test_an_ending_after_the_first_line_can_always_be_tried_again() -> None:
    for status in (None, 0, 1, 127, -15):
        error = explain_exit(status, "permission denied: not found", "python3", "gpu1", started=True)
        assert type(error) is LinkError
        assert "gpu1" in str(error)


def test_a_fatal_line_behind_noise_names_the_version() -> None:
    said = 'Welcome\nno newline{"ev":"fatal","kind":"python","text":"2.7.18"}\n'
    error = explain_exit(3, "", "python3", "gpu1", said=said)
    assert isinstance(error, LinkRefused)
    assert "python3 on gpu1 is Python 2.7.18" in str(error)


@given(status=st.none() | st.integers(-70, 300), stderr=st.text(), said=st.text(), started=st.booleans())
def test_every_ending_is_one_printable_sentence(status: int | None, stderr: str, said: str, started: bool) -> None:
    text = str(explain_exit(status, stderr, "python3", "gpu1", said=said, started=started))
    assert text == protocol.printable(text)
    assert "gpu1" in text
    assert len(text) < 500


@given(noise=st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")))
def test_a_hello_is_found_behind_anything(noise: bytes) -> None:
    assert find_hello(noise + b'{"ev":"hello","seq":1}\n') == {"ev": "hello", "seq": 1}
    assert find_hello(noise + b'{"ev":"procs","seq":1}\n') is None
    assert find_hello(noise) is None


def test_start_arguments_name_this_process_and_its_ancestors() -> None:
    chain = own_chain()
    parents = [psutil.Process().pid, *(parent.pid for parent in psutil.Process().parents() if parent.pid > 1)]
    assert [pid for _, pid, _ in chain] == parents
    arguments = start_arguments(HostSpec("gpu1", disks=("/data",), interval_s=2.0))
    assert arguments["console_chain"] == [list(identity) for identity in chain]
    assert arguments["disks"] == ["/data"]
    assert arguments["interval_s"] == 2.0
    assert "@" in arguments["operator"]
    json.dumps(arguments)


@pytest.mark.parametrize(
    "spec", [HostSpec("x", "a b"), HostSpec("x", "gpu1", jump=("a b",)), HostSpec("x", "gpu1", "")]
)
def test_a_bad_host_is_told_before_anything_is_tried(spec: HostSpec) -> None:
    with pytest.raises(SettingsError):
        make_link(spec, NoPrompts())


def test_no_ssh_library_is_loaded_before_the_first_connection() -> None:
    program = "import sys, console.host.connect, console.host.hostkeys; print('asyncssh' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
