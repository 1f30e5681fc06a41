"""What stands between a login and a running agent: no Python, an old one, chatty and restricted shells."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from console.host.bootstrap import BOOTSTRAP, build_bundle
from console.host.errors import LinkError, LinkRefused
from console.host.session import Pace, Session
from console.host.ssh import open_ssh, parse_target, remote_command
from tests.system.operator import SMALL, Operator
from tests.system.sshd import SshdServer

pytestmark = pytest.mark.usefixtures("client_home")

PACE = Pace(hello_s=60.0)


async def greet(sshd: SshdServer, python: str = sys.executable) -> str:
    """Return the host name in an agent's hello over ``sshd``."""
    channel = await open_ssh(
        parse_target(sshd.address),
        build_bundle(SMALL),
        Operator(accept=True),
        python=python,
        identity_files=[sshd.client_key_path],
        deadline_s=60.0,
    )
    try:
        hello = await Session(channel, "gpu1", PACE, lambda event: None, lambda text: None).greet()
        return str(hello["hostname"])
    finally:
        await channel.close()


def script(folder: Path, text: str, name: str = "python") -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_a_missing_python_is_named_with_the_fix(sshd: SshdServer) -> None:
    with pytest.raises(LinkRefused, match=r"no-such-python was not found on .*`python = ") as refused:
        await greet(sshd, "no-such-python")
    assert "install Python 3.9 or newer" in str(refused.value)


async def test_a_python_that_may_not_be_run_is_named(sshd: SshdServer, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("no program")
    with pytest.raises(LinkRefused, match=r"cannot be run: permission denied"):
        await greet(sshd, str(path))


async def test_an_old_python_is_named_with_its_version(sshd: SshdServer, tmp_path: Path) -> None:
    # The bootstrap itself decides: it is run here by this Python with another version number.
    program = 'import sys; sys.version_info = (3, 6, 15); sys.version = "3.6.15 (old)"; exec(sys.argv[3])'
    old = script(tmp_path, f"exec {sys.executable} -c '{program}' \"$@\"")
    with pytest.raises(LinkRefused, match=r"is Python 3\.6\.15, and the agent needs 3\.9 or newer"):
        await greet(sshd, old)


@pytest.mark.parametrize("name", ["python2.7", "python2", "python3.6", "python3.7", "python3.8"])
def test_the_bootstrap_runs_on_old_pythons_that_are_here(name: str) -> None:
    """Where an old Python is installed it must say so itself; where none is, only the syntax is checked."""
    python = shutil.which(name)
    if python is None or subprocess.run([python, "-V"], capture_output=True).returncode != 0:
        compile(BOOTSTRAP, "bootstrap", "exec")
        assert not set(BOOTSTRAP) & set("'\\!\n")
        return
    done = subprocess.run([python, "-u", "-c", BOOTSTRAP], input=b"", capture_output=True, timeout=60)
    assert done.returncode == 3
    assert b'"fatal"' in done.stdout
    assert done.stderr == b""


async def test_noise_of_the_login_before_the_hello_is_passed_over(make_sshd: Callable[..., SshdServer]) -> None:
    noise = 'seq 1 5000; echo "{not json"; printf "no newline"; eval "$SSH_ORIGINAL_COMMAND"'
    sshd = make_sshd(options=(f"ForceCommand sh -c '{noise}'",)).start()
    assert await greet(sshd) == "small"


async def test_endless_noise_is_a_refusal(make_sshd: Callable[..., SshdServer]) -> None:
    sshd = make_sshd(options=("ForceCommand yes 'this login never stops talking'",)).start()
    with pytest.raises(LinkRefused, match=r"prints without end .*never stops talking"):
        await greet(sshd)


async def test_a_restricted_account_is_a_refusal_with_its_words(make_sshd: Callable[..., SshdServer]) -> None:
    sshd = make_sshd(options=("ForceCommand echo This account is currently not available.; exit 1",)).start()
    with pytest.raises(LinkRefused, match=r"lets this user run no command: .*currently not available"):
        await greet(sshd)


async def test_a_login_that_just_ends_is_a_refusal_with_its_last_words(make_sshd: Callable[..., SshdServer]) -> None:
    sshd = make_sshd(options=("ForceCommand echo maintenance until noon >&2; exit 7",)).start()
    with pytest.raises(LinkRefused, match=r"exit status 7 .*maintenance until noon"):
        await greet(sshd)


async def test_a_broken_start_shows_the_last_line_and_no_traceback(sshd: SshdServer) -> None:
    broken = {"console.agent.main": "def main():\n    raise RuntimeError('cannot \\x1b[2J work')\n"}
    channel = await open_ssh(
        parse_target(sshd.address),
        build_bundle(broken),
        Operator(accept=True),
        python=sys.executable,
        identity_files=[sshd.client_key_path],
        deadline_s=60.0,
    )
    with pytest.raises(LinkRefused, match="failed at its start") as refused:
        await Session(channel, "gpu1", PACE, lambda event: None, lambda text: None).greet()
    await channel.close()
    assert "RuntimeError: cannot ␛[2J work" in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_a_login_that_breaks_off_can_be_tried_again(make_sshd: Callable[..., SshdServer]) -> None:
    sshd = make_sshd(options=("ForceCommand kill -9 $PPID",)).start()
    with pytest.raises(LinkError, match="broke before the agent answered") as error:
        await greet(sshd)
    assert not isinstance(error.value, LinkRefused)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish"])
def test_the_command_line_suits_every_shell_that_is_here(shell: str, tmp_path: Path) -> None:
    path = shutil.which(shell) or shutil.which("sh")
    assert path is not None
    strange = tmp_path / "with space" / "$HOME"
    strange.mkdir(parents=True)
    (strange / "python").symlink_to(sys.executable)
    bundle = build_bundle({"console.agent.main": "import sys\ndef main():\n    print(sys.argv, sys.stdin.read())\n"})
    for python in (sys.executable, str(strange / "python"), "~/python"):
        home = {"HOME": str(strange), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [path, "-c", remote_command(python)], input=bundle + b"rest", capture_output=True, timeout=60, env=home
        )
        assert done.stdout.strip() == b"['-c'] rest", done.stderr
