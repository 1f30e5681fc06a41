"""A host whose disk is full: an action is carried out all the same, and what could not be written is said."""

from __future__ import annotations

import mmap
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.agent.auditfile import AuditFile
from tests.system.conftest import console_for
from tests.system.console_cli import Console
from tests.system.jobs import Jobs, ended
from tests.system.rebirth import in_own_pids
from tests.system.sshd import SshdServer


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB; an empty folder where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or subprocess.run([mount, "-t", "tmpfs", "-o", "size=64k", "none", folder]).returncode != 0:
        yield folder
        return
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with open(disk / "ballast", "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(512))


def console_on(disk: Path, sshd: SshdServer, client_home: Path, tmp_path: Path) -> Console:
    """Return the command line for a host whose users' files are on ``disk``."""
    python = tmp_path / "python"
    # Where no small disk can be mounted, no file may grow.
    limit = "" if disk.is_mount() else "[ -e %s ] && ulimit -f 0; " % (disk / "ballast")
    python.write_text(f'#!/bin/sh\n{limit}HOME={disk} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    console = console_for(sshd, client_home, python=str(python))
    console.host_home = disk
    return console


@in_own_pids
def test_an_action_on_a_full_disk(sshd: SshdServer, client_home: Path, tmp_path: Path, disk: Path, jobs: Jobs) -> None:
    console = console_on(disk, sshd, client_home, tmp_path)
    first, second, third = (jobs.sleeper(name) for name in ("first", "second", "third"))
    assert console.act("kill", first.pid)["audit"] == "written"
    if disk.is_mount():
        # In the file's last page 50 bytes are free: a record begins to be written, and then there is no more room.
        with console.audit_file().open("ab") as file:
            file.write(b"\n" * (-(file.tell() + 50) % mmap.PAGESIZE))
        fill(disk)
    else:
        (disk / "ballast").touch()
    outcome = console.act("kill", second.pid)
    assert outcome["targets"][0]["verified"]
    assert ended(second.pid)
    assert outcome["audit"].startswith(f"the audit record could not be written to {console.audit_file()}: ")
    assert outcome["audit"].endswith("No space left on device" if disk.is_mount() else "File too large")
    # Nothing half-written stands in front of the next record.
    assert [r["record"] for r in AuditFile(str(console.audit_file())).tail(10)[0]] == ["intent", "result"]
    assert console.json("audit")["torn"] == 0
    done = console.run("kill", third.pid, "--yes")
    assert done.returncode == 0
    assert "could not be written" in done.stdout + done.stderr
    (disk / "ballast").unlink()
    assert console.act("pause", third.pid, code=3)["refusal"]
    records, torn = AuditFile(str(console.audit_file())).tail(10)
    assert ([r["record"] for r in records], torn) == (["intent", "result", "result"], 0)
