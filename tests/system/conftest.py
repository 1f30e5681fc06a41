"""What tests of a whole connection share: servers, and a home folder that is nobody's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.console_cli import Console
from tests.system.jobs import Jobs
from tests.system.sshd import SshdServer


@pytest.fixture
def client_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new home folder with an empty ~/.ssh, and no SSH agent."""
    home = tmp_path / "client-home"
    (home / ".ssh").mkdir(mode=0o700, parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def make_sshd(tmp_path: Path) -> Iterator[Callable[..., SshdServer]]:
    """Makes servers that are not started yet; all are ended with the test. Arguments: those of SshdServer."""
    servers: list[SshdServer] = []

    def make(**arguments: object) -> SshdServer:
        servers.append(SshdServer(tmp_path / f"sshd-{len(servers)}", **arguments))  # type: ignore[arg-type]
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def sshd(make_sshd: Callable[..., SshdServer]) -> SshdServer:
    """A running server."""
    return make_sshd().start()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """The processes that a test acts on."""
    yield from _jobs(tmp_path / "jobs")


@pytest.fixture
def bystanders(tmp_path: Path) -> Iterator[Jobs]:
    """The processes that an action must not touch."""
    yield from _jobs(tmp_path / "bystanders")


def _jobs(folder: Path) -> Iterator[Jobs]:
    folder.mkdir()
    jobs = Jobs(folder)
    yield jobs
    jobs.end()


def console_for(sshd: SshdServer, home: Path, **settings: object) -> Console:
    """Return the command line for the host that ``sshd`` is, whose key the operator knows."""
    (home / ".ssh/known_hosts").write_text(sshd.known_hosts_line)
    reach = {"address": sshd.address, "python": sys.executable, "identity_files": [str(sshd.client_key_path)]}
    return Console(home, {**reach, **settings}, sshd.home)


@pytest.fixture
def over_ssh(sshd: SshdServer, client_home: Path) -> Console:
    """`eagle3-console` for a host behind a real sshd."""
    return console_for(sshd, client_home)


@pytest.fixture
def here(client_home: Path) -> Console:
    """`eagle3-console` for this machine without SSH."""
    return Console(client_home)


@pytest.fixture(params=["over_ssh", "here"])
def console(request: pytest.FixtureRequest) -> Console:
    """Both ways to a host, one after the other."""
    found: Console = request.getfixturevalue(request.param)
    return found
