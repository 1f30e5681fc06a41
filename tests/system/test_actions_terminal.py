"""The questions of an action on a terminal: Ctrl+C leaves them at once, and leaves the terminal as it was."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.system.conftest import console_for
from tests.system.console_cli import Console, Terminal
from tests.system.jobs import Jobs, ended
from tests.system.sshd import SshdServer, make_key


def interrupt(terminal: Terminal) -> int:
    """Send what Ctrl+C sends and return the exit code; nobody presses Enter."""
    terminal.process.send_signal(signal.SIGINT)
    return terminal.finish()


def test_ctrl_c_at_the_plan(console: Console, jobs: Jobs) -> None:
    job = jobs.sleeper()
    terminal = Terminal(console.argv("kill", job.pid), console.environment)
    try:
        terminal.read_until("Type yes to go on")
        assert interrupt(terminal) == 130
        assert "interrupted" in terminal.shown
        assert "Traceback" not in terminal.shown
    finally:
        terminal.close()
    assert not ended(job.pid)
    assert [record["phase"] for record in console.audit()] == []


def test_ctrl_c_at_a_passphrase_gives_the_echo_back(sshd: SshdServer, client_home: Path, jobs: Jobs) -> None:
    key = make_key(client_home / "locked", passphrase="open sesame")
    sshd.authorize(key)
    job = jobs.sleeper()
    console = console_for(sshd, client_home, identity_files=[str(key)])
    terminal = Terminal(console.argv("kill", job.pid), console.environment)
    try:
        terminal.read_until("assphrase")
        assert interrupt(terminal) == 130
        assert terminal.echoes()
        assert "Traceback" not in terminal.shown
    finally:
        terminal.close()
    terminal = Terminal(console.argv("kill", job.pid), console.environment)
    try:
        terminal.read_until("assphrase")
        terminal.wait_for_echo(False)
        terminal.type("open sesame")
        terminal.read_until("Type yes to go on")
        assert terminal.echoes()
        terminal.type("yes")
        assert terminal.finish() == 0
        assert "sesame" not in terminal.shown
    finally:
        terminal.close()
    assert job.wait() == -signal.SIGKILL
