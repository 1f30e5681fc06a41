"""An agent that runs as an ordinary user: what is not its own is refused before anything is sent."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from tests.system.conftest import console_for
from tests.system.console_cli import Console
from tests.system.jobs import Jobs, said
from tests.system.sshd import SshdServer

NOBODY = 65534

MIXED = """
import os, signal, sys
if os.fork() == 0:
    print("on", flush=True)
    signal.pause()
os.setgid(65534)
os.setuid(65534)
signal.pause()
"""
"""A process of nobody with a child of whoever runs the tests."""


@pytest.fixture
def as_nobody(sshd: SshdServer, client_home: Path, tmp_path: Path) -> Console:
    """The command line for a host where the login is an ordinary user: for the tests of root, the user nobody."""
    if os.geteuid() != 0:
        return console_for(sshd, client_home)
    setpriv = shutil.which("setpriv")
    assert setpriv, "this test needs setpriv (util-linux)"
    home = sshd.home / "nobody"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    for folder in (sshd.home, sshd.folder, *sshd.folder.parents):
        if folder.stat().st_uid == 0 and "pytest" in str(folder):
            folder.chmod(folder.stat().st_mode | 0o011)
    # It may read whatever root may, so that it finds its Python anywhere; what it may signal is an ordinary user's.
    rights = (
        "--inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search --bounding-set=-all,+dac_read_search"
    )
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nHOME={home} exec {setpriv} --reuid={NOBODY} --regid={NOBODY} --clear-groups {rights} "
        f'{sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    console = console_for(sshd, client_home, python=str(python))
    console.host_home = home
    return console


def test_another_users_process_is_refused(as_nobody: Console, jobs: Jobs) -> None:
    if os.geteuid() != 0:
        # Nobody else's process can be made without root; the first process is nobody's to signal anyway.
        assert "first process" in as_nobody.act("kill", 1, code=3)["refusal"]
        return
    job = jobs.sleeper()
    me, nobody = pwd.getpwuid(0).pw_name, pwd.getpwuid(NOBODY).pw_name
    for action in ("pause", "kill"):
        outcome = as_nobody.act(action, job.pid, code=3)
        assert outcome["refusal"].endswith(f"belongs to {me}; {nobody} may not signal it: connect as {me} or as root")
        assert [t["sent"] for t in outcome["targets"]] == [None]
    assert psutil.Process(job.pid).status() == psutil.STATUS_SLEEPING
    records = as_nobody.audit()
    assert [(r["action"], r["refusal_kind"], r["ssh_user"]) for r in records] == [
        (action, "uid", nobody) for action in ("pause", "kill")
    ]


def test_a_set_with_another_users_process_is_refused_whole(as_nobody: Console, jobs: Jobs) -> None:
    job = jobs.python(MIXED) if os.geteuid() == 0 else jobs.python(MIXED.replace("65534", str(os.getuid())))
    assert said(job) == "on"
    if os.geteuid() != 0:
        assert as_nobody.act("kill", job.pid)["ok"]
        return
    (child,) = psutil.Process(job.pid).children()
    outcome = as_nobody.act("kill", job.pid, code=3)
    assert outcome["refusal"].startswith(f"{child.pid} (")
    assert {psutil.Process(pid).status() for pid in (job.pid, child.pid)} == {psutil.STATUS_SLEEPING}
    only = as_nobody.act("kill", job.pid, "--only")
    assert [t["pid"] for t in only["targets"]] == [job.pid]
    assert child.is_running()
