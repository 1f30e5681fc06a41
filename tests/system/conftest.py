"""What tests of a whole connection share: servers, and a home folder that is nobody's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

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
