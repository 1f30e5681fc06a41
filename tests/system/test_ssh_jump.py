"""Hosts behind other hosts: every hop's key is checked the same way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from console.host.bootstrap import build_bundle
from console.host.errors import LinkError, LinkRefused
from console.host.ssh import SshChannel, open_ssh, parse_target
from tests.system.operator import SMALL, Operator, until
from tests.system.sshd import SshdServer


@pytest.fixture
def gate(make_sshd: Callable[..., SshdServer]) -> SshdServer:
    return make_sshd().start()


@pytest.fixture
def inner(make_sshd: Callable[..., SshdServer], gate: SshdServer) -> SshdServer:
    server = make_sshd()
    server.authorize(gate.client_key_path)
    return server.start()


async def log_in(address: str, key: Path, operator: Operator, *jump: str) -> SshChannel:
    return await open_ssh(
        parse_target(address),
        build_bundle(SMALL),
        operator,
        python=sys.executable,
        identity_files=[key],
        jump=[parse_target(hop) for hop in jump],
        deadline_s=60.0,
    )


async def proves_itself(channel: SshChannel) -> bool:
    try:
        return b'"hello"' in await channel.readline()
    finally:
        await channel.close()


async def test_every_hop_is_asked_about_and_stored(gate: SshdServer, inner: SshdServer, client_home: Path) -> None:
    operator = Operator(accept=True)
    assert await proves_itself(await log_in(inner.address, gate.client_key_path, operator, gate.address))
    assert [q.fingerprint for q in operator.questions] == [gate.host_key_fingerprint, inner.host_key_fingerprint]
    stored = (client_home / ".local/state/eagle3-console/known_hosts").read_text()
    assert stored == gate.known_hosts_line + inner.known_hosts_line
    await until(lambda: not gate.sessions() and not inner.sessions(), "closing the channel ends both connections")


async def test_a_changed_hop_is_refused_before_the_host_is_reached(
    gate: SshdServer, inner: SshdServer, client_home: Path
) -> None:
    (client_home / ".ssh/known_hosts").write_text(gate.known_hosts_line + inner.known_hosts_line)
    gate.rotate_host_key()
    with pytest.raises(LinkRefused, match="has changed") as refused:
        await log_in(inner.address, gate.client_key_path, Operator(accept=True), gate.address)
    assert str(gate.port) in str(refused.value)
    assert "Accepted publickey" not in inner.log


async def test_proxy_jump_of_ssh_config_is_followed_over_two_hops(
    gate: SshdServer, inner: SshdServer, make_sshd: Callable[..., SshdServer], client_home: Path
) -> None:
    last = make_sshd()
    last.authorize(gate.client_key_path)
    last.start()
    (client_home / ".ssh/config").write_text(
        "".join(
            f"Host {name}\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n{jump}"
            for name, server, jump in (
                ("gate", gate, ""),
                ("inner", inner, "  ProxyJump gate\n"),
                ("last", last, "  ProxyJump inner\n"),
            )
        )
    )
    operator = Operator(accept=True)
    assert await proves_itself(await log_in("last", gate.client_key_path, operator))
    fingerprints = [server.host_key_fingerprint for server in (gate, inner, last)]
    assert [question.fingerprint for question in operator.questions] == fingerprints


async def test_a_ring_of_proxy_jumps_is_refused(client_home: Path) -> None:
    (client_home / ".ssh/config").write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    with pytest.raises(LinkRefused, match="ring of ProxyJump"):
        await log_in("a", client_home / "none", Operator())


async def test_a_hop_that_cannot_reach_the_host_says_so(gate: SshdServer, inner: SshdServer, client_home: Path) -> None:
    (client_home / ".ssh/known_hosts").write_text(gate.known_hosts_line)
    inner.stop()
    with pytest.raises(LinkError, match=r"hop before 127\.0\.0\.1") as error:
        await log_in(inner.address, gate.client_key_path, Operator(), gate.address)
    assert not isinstance(error.value, LinkRefused)
    await until(lambda: not gate.sessions(), "the connection to the hop is closed too")


async def test_a_hop_that_forbids_forwarding_is_a_refusal(
    make_sshd: Callable[..., SshdServer], client_home: Path
) -> None:
    gate = make_sshd(options=("AllowTcpForwarding no",)).start()
    (client_home / ".ssh/known_hosts").write_text(gate.known_hosts_line)
    with pytest.raises(LinkRefused, match="AllowTcpForwarding"):
        await log_in("127.0.0.1:9", gate.client_key_path, Operator(), gate.address)


async def test_proxy_command_runs_in_a_shell_and_its_noise_stays_out(inner: SshdServer, client_home: Path) -> None:
    relay = client_home / "relay.py"
    relay.write_text(
        "import socket, sys, threading, os\n"
        "assert len(sys.argv) == 2, 'no shell has expanded $NOTHING'\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): s.sendall(data)\n"
        "    os._exit(0)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := s.recv(65536):\n"
        "    sys.stderr.write('noise\\n' * 50); sys.stderr.flush(); os.write(1, data)\n"
    )
    (client_home / ".ssh/config").write_text(
        f"Host *\n  ProxyCommand {sys.executable} {relay} %p $NOTHING\n  HostKeyAlias inner\n"
    )
    operator = Operator(accept=True)
    assert await proves_itself(await log_in(inner.address, inner.client_key_path, operator))
    assert operator.questions[0].host == "inner"


async def test_a_failing_proxy_command_is_named(client_home: Path) -> None:
    (client_home / ".ssh/config").write_text("Host *\n  ProxyCommand false\n")
    with pytest.raises(LinkError, match="ProxyCommand"):
        await log_in("gpu1", client_home / "none", Operator())
