"""First contact, changed, second and revoked host keys, against a real sshd."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from console.host.bootstrap import build_bundle
from console.host.errors import LinkRefused
from console.host.ssh import SshChannel, open_ssh, parse_target
from tests.system.operator import SMALL, Operator
from tests.system.sshd import SshdServer, fingerprint, make_key, public_half

pytestmark = pytest.mark.usefixtures("client_home")


async def log_in(sshd: SshdServer, operator: Operator, **options: object) -> SshChannel:
    arguments = {"python": sys.executable, "identity_files": [sshd.client_key_path], "deadline_s": 60.0, **options}
    return await open_ssh(parse_target(sshd.address), build_bundle(SMALL), operator, **arguments)  # type: ignore[arg-type]


async def proves_itself(channel: SshChannel) -> bool:
    """Return whether an agent says hello on ``channel``, and close it."""
    try:
        return b'"hello"' in await channel.readline()
    finally:
        await channel.close()


def certify_host(sshd: SshdServer, authority: Path) -> None:
    """Let ``authority`` sign the server's host key for its address."""
    key = public_half(sshd.host_key_path)
    subprocess.run(["ssh-keygen", "-q", "-s", authority, "-I", "host", "-h", "-n", "127.0.0.1", key], check=True)


def own_file(home: Path) -> Path:
    return home / ".local/state/eagle3-console/known_hosts"


async def test_first_contact_shows_the_fingerprint_and_stores_an_accepted_key(
    sshd: SshdServer, client_home: Path
) -> None:
    operator = Operator(accept=True)
    assert await proves_itself(await log_in(sshd, operator))

    (question,) = operator.questions
    assert question.fingerprint == sshd.host_key_fingerprint
    assert (question.host, question.port, question.algorithm) == ("127.0.0.1", sshd.port, "ssh-ed25519")
    assert question.store_path == str(own_file(client_home))
    assert own_file(client_home).read_text() == sshd.known_hosts_line
    assert stat.S_IMODE(own_file(client_home).stat().st_mode) == 0o600

    assert await proves_itself(await log_in(sshd, operator))
    assert len(operator.questions) == 1, "a stored key is not asked about again"


async def test_a_key_that_is_not_accepted_is_refused_and_not_stored(sshd: SshdServer, client_home: Path) -> None:
    with pytest.raises(LinkRefused, match="was not accepted") as refused:
        await log_in(sshd, Operator(accept=False))
    assert sshd.host_key_fingerprint in str(refused.value)
    assert not own_file(client_home).exists()
    assert "Accepted publickey" not in sshd.log


async def test_a_changed_key_is_refused_with_both_fingerprints_and_the_line(
    sshd: SshdServer, client_home: Path
) -> None:
    known = client_home / ".ssh/known_hosts"
    known.write_text("# a comment\n" + sshd.known_hosts_line)
    old = sshd.host_key_fingerprint
    sshd.rotate_host_key()
    operator = Operator(accept=True)

    with pytest.raises(LinkRefused) as refused:
        await log_in(sshd, operator)

    text = str(refused.value)
    assert old in text
    assert sshd.host_key_fingerprint in text
    assert f"{known} line 2" in text
    assert f"ssh-keygen -f '{known}' -R '{sshd.known_hosts_name}'" in text
    assert operator.questions == [], "a changed key is no question"
    assert "Accepted publickey" not in sshd.log


@pytest.mark.parametrize("nowhere", ["none", "/dev/null"])
async def test_no_ssh_config_switches_the_check_off(sshd: SshdServer, client_home: Path, nowhere: str) -> None:
    (client_home / ".ssh/config").write_text(
        f"Host *\n  UserKnownHostsFile {nowhere}\n  GlobalKnownHostsFile {nowhere}\n  StrictHostKeyChecking no\n"
    )
    with pytest.raises(LinkRefused, match="was not accepted"):
        await log_in(sshd, Operator(accept=False))
    assert await proves_itself(await log_in(sshd, Operator(accept=True)))
    sshd.rotate_host_key()
    with pytest.raises(LinkRefused, match="has changed"):
        await log_in(sshd, Operator(accept=True))


async def test_a_user_known_hosts_file_of_ssh_config_counts(sshd: SshdServer, client_home: Path) -> None:
    known = client_home / ".ssh/known_hosts.d/127.0.0.1"
    known.parent.mkdir()
    known.write_text(sshd.known_hosts_line)
    (client_home / ".ssh/config").write_text("Host *\n  UserKnownHostsFile ~/.ssh/known_hosts.d/%h\n")
    operator = Operator(accept=False)
    assert await proves_itself(await log_in(sshd, operator))
    assert operator.questions == []


@pytest.mark.parametrize("known", ["ed25519", "rsa", "ecdsa"])
async def test_a_host_known_by_one_of_its_keys_is_not_changed(
    make_sshd: Callable[..., SshdServer], client_home: Path, known: str
) -> None:
    sshd = make_sshd()
    keys = {"ed25519": sshd.host_key_path, "rsa": sshd.add_host_key("rsa"), "ecdsa": sshd.add_host_key("ecdsa")}
    sshd.start()
    (client_home / ".ssh/known_hosts").write_text(sshd.line_for(keys[known]))
    operator = Operator(accept=False)
    assert await proves_itself(await log_in(sshd, operator))
    assert operator.questions == []


async def test_a_host_without_the_known_kind_of_key_is_changed(
    make_sshd: Callable[..., SshdServer], client_home: Path
) -> None:
    sshd = make_sshd()
    rsa = sshd.add_host_key("rsa")
    sshd.start()
    (client_home / ".ssh/known_hosts").write_text(sshd.known_hosts_line)
    sshd.drop_host_key(sshd.host_key_path)
    sshd.restart()
    with pytest.raises(LinkRefused, match="has changed") as refused:
        await log_in(sshd, Operator(accept=True))
    assert fingerprint(rsa) in str(refused.value)


async def test_a_revoked_key_is_refused(sshd: SshdServer, client_home: Path) -> None:
    known = client_home / ".ssh/known_hosts"
    known.write_text(sshd.known_hosts_line + "@revoked * " + sshd.known_hosts_line.split(" ", 1)[1])
    with pytest.raises(LinkRefused, match="revoked") as refused:
        await log_in(sshd, Operator(accept=True))
    assert f"{known} line 2" in str(refused.value)


async def test_a_host_certificate_of_a_known_authority_is_trusted(
    make_sshd: Callable[..., SshdServer], client_home: Path, tmp_path: Path
) -> None:
    authority = make_key(tmp_path / "authority")
    stranger = make_key(tmp_path / "stranger")
    sshd = make_sshd(options=(f"HostCertificate {tmp_path}/sshd-0/host_ed25519-cert.pub",))
    certify_host(sshd, authority)
    sshd.start()
    kind, blob = public_half(authority).read_text().split()[:2]
    (client_home / ".ssh/known_hosts").write_text(f"@cert-authority [127.0.0.1]:* {kind} {blob}\n")
    operator = Operator(accept=False)
    assert await proves_itself(await log_in(sshd, operator))
    assert operator.questions == []

    kind, blob = public_half(stranger).read_text().split()[:2]
    (client_home / ".ssh/known_hosts").write_text(f"@cert-authority [127.0.0.1]:* {kind} {blob}\n")
    with pytest.raises(LinkRefused, match="cannot be trusted"):
        await log_in(sshd, Operator(accept=False))


async def test_host_key_alias_is_the_name_that_counts(sshd: SshdServer, client_home: Path) -> None:
    (client_home / ".ssh/config").write_text("Host *\n  HostKeyAlias behind-nat\n")
    operator = Operator(accept=True)
    assert await proves_itself(await log_in(sshd, operator))
    assert own_file(client_home).read_text() == "behind-nat " + sshd.known_hosts_line.split(" ", 1)[1]
    assert operator.questions[0].host == "behind-nat"
