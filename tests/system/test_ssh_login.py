"""Who logs in: keys with and without a passphrase, passwords, challenges, and what a refusal says."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncssh
import pytest

from console.host.bootstrap import build_bundle
from console.host.errors import LinkError, LinkRefused
from console.host.ssh import Keyring, SshChannel, open_ssh, parse_target
from console.host.sshlogin import Asker
from tests.system.operator import SMALL, Operator
from tests.system.sshd import SshdServer, make_key, public_half


async def log_in(address: str, operator: Operator, **options: object) -> SshChannel:
    arguments = {"python": sys.executable, "deadline_s": 60.0, **options}
    return await open_ssh(parse_target(address), build_bundle(SMALL), operator, **arguments)  # type: ignore[arg-type]


async def proves_itself(channel: SshChannel) -> bool:
    try:
        return b'"hello"' in await channel.readline()
    finally:
        await channel.close()


@pytest.fixture
def known(sshd: SshdServer, client_home: Path) -> SshdServer:
    """A running server whose host key is known."""
    (client_home / ".ssh/known_hosts").write_text(sshd.known_hosts_line)
    return sshd


@pytest.fixture
def locked(known: SshdServer, client_home: Path) -> Path:
    """The default key, which has the passphrase "open sesame" and may log in."""
    key = make_key(client_home / ".ssh/id_ed25519", passphrase="open sesame")
    known.authorize(key)
    return key


async def test_a_passphrase_is_asked_for_once_and_again_after_a_wrong_one(known: SshdServer, locked: Path) -> None:
    operator, keyring = Operator(secrets=["wrong", "open sesame"]), Keyring()
    assert await proves_itself(await log_in(known.address, operator, keyring=keyring))
    assert [str(locked) in prompt for _, prompt, _ in operator.asked] == [True, True]
    assert "wrong, try 2 of 3" in operator.asked[1][1]
    assert not any(echo for _, _, echo in operator.asked)

    assert await proves_itself(await log_in(known.address, operator, keyring=keyring))
    assert len(operator.asked) == 2, "a reconnect uses the key that is unlocked already"


async def test_three_wrong_passphrases_are_a_refusal(known: SshdServer, locked: Path) -> None:
    operator = Operator(secrets=["a", "b", "c", "open sesame"])
    with pytest.raises(LinkRefused, match=r"may not log in on 127\.0\.0\.1"):
        await log_in(known.address, operator)
    assert operator.secrets == ["open sesame"]


async def test_a_cancelled_passphrase_is_a_refusal(known: SshdServer, locked: Path) -> None:
    with pytest.raises(LinkRefused, match=r"cancelled.*Passphrase"):
        await log_in(known.address, Operator())


async def test_a_key_the_host_does_not_want_is_not_asked_for(known: SshdServer, client_home: Path) -> None:
    make_key(client_home / ".ssh/id_ecdsa", kind="ecdsa", passphrase="not needed")
    plain = make_key(client_home / ".ssh/id_rsa", kind="rsa")
    known.authorize(plain)
    operator = Operator()
    assert await proves_itself(await log_in(known.address, operator))
    assert operator.asked == []


async def test_a_locked_key_without_a_public_half_still_works(known: SshdServer, locked: Path) -> None:
    public_half(locked).unlink()
    assert await proves_itself(await log_in(known.address, Operator(secrets=["open sesame"])))


async def test_identity_file_of_ssh_config_is_used_and_a_missing_one_passed_over(
    known: SshdServer, client_home: Path
) -> None:
    (client_home / ".ssh/config").write_text(
        f"Host gpu1\n  HostName 127.0.0.1\n  Port {known.port}\n  User {known.user}\n"
        f"  IdentityFile ~/.ssh/missing\n  IdentityFile {known.client_key_path}\n  IdentitiesOnly yes\n"
        "  RequestTTY force\n  RemoteCommand tmux\n"
    )
    assert await proves_itself(await log_in("gpu1", Operator()))


async def test_a_refused_login_names_user_host_and_what_was_tried(known: SshdServer, client_home: Path) -> None:
    stranger = make_key(client_home / ".ssh/id_ed25519")
    with pytest.raises(LinkRefused) as refused:
        await log_in(known.address, Operator())
    text = str(refused.value)
    assert f"{known.user} may not log in on 127.0.0.1 port {known.port}" in text
    assert str(stranger) in text
    assert "authorized_keys" in text


async def test_a_named_key_that_is_missing_is_no_traceback(known: SshdServer) -> None:
    with pytest.raises(LinkRefused, match="no key, since none was found"):
        await log_in(known.address, Operator(), identity_files=[Path("/nonexistent/key")])


async def test_default_keys_are_not_offered_in_place_of_a_named_one(known: SshdServer, client_home: Path) -> None:
    known.authorize(make_key(client_home / ".ssh/id_ed25519"))
    assert await proves_itself(await log_in(known.address, Operator()))
    with pytest.raises(LinkRefused, match=r"no key, since none was found"):
        await log_in(known.address, Operator(), identity_files=[client_home / "missing"])


async def test_a_bad_ssh_config_is_named_with_its_line(client_home: Path) -> None:
    (client_home / ".ssh/config").write_text("Host *\n  Port many\n")
    with pytest.raises(LinkRefused, match="config line 2"):
        await log_in("gpu1", Operator())


async def test_a_refused_connection_can_be_tried_again(client_home: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(LinkError, match=f"127.0.0.1 refuses connections on port {port}") as error:
            await log_in(f"127.0.0.1:{port}", Operator())
    assert not isinstance(error.value, LinkRefused)


async def test_a_host_that_says_nothing_runs_into_the_deadline(client_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(LinkError, match=r"did not answer within 0\.2 s") as error:
            await log_in(f"127.0.0.1:{silent.getsockname()[1]}", Operator(), deadline_s=0.2)
    assert not isinstance(error.value, LinkRefused)


async def test_an_unknown_name_can_be_tried_again(client_home: Path) -> None:
    with pytest.raises(LinkError, match=r"The name gpu1\.invalid could not be resolved") as error:
        await log_in("gpu1.invalid", Operator())
    assert not isinstance(error.value, LinkRefused)


async def test_another_service_on_the_port_is_no_ssh_server(client_home: Path) -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(web, "127.0.0.1", 0)
    async with server:
        with pytest.raises(LinkError) as error:
            await log_in(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", Operator())
    assert "127.0.0.1" in str(error.value)
    assert "\n" not in str(error.value)


class Examiner(asyncssh.SSHServer):
    """Wants the password "pw", or the answers "red" and "4" to a challenge."""

    methods = "password"

    def password_auth_supported(self) -> bool:
        return self.methods == "password"

    def validate_password(self, username: str, password: str) -> bool:
        return password == "pw"

    def kbdint_auth_supported(self) -> bool:
        return self.methods == "challenge"

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> object:
        return "Door", "Two\x1b[31m questions", "", [("Colour: ", True), ("PIN: ", False)]

    def validate_kbdint_response(self, username: str, responses: list[str]) -> bool:
        return responses == ["red", "4"]


@asynccontextmanager
async def examiner(home: Path, methods: str) -> AsyncIterator[str]:
    """A server that examines by ``methods`` and then runs an agent's hello; its address."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    server_class = type("Server", (Examiner,), {"methods": methods})

    def say_hello(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(b'{"ev":"hello"}\n')
        process.exit(0)

    listener = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[key], server_factory=server_class, process_factory=say_hello, encoding=None
    )
    async with listener:
        line = key.export_public_key().decode("ascii").strip()
        (home / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{listener.get_port()} {line}\n")
        yield f"ops@127.0.0.1:{listener.get_port()}"


async def test_a_password_is_asked_for_until_it_is_right(client_home: Path) -> None:
    async with examiner(client_home, "password") as address:
        operator = Operator(secrets=["guess", "pw"])
        assert await proves_itself(await log_in(address, operator))
    assert [echo for _, _, echo in operator.asked] == [False, False]
    assert "Password of ops" in operator.asked[0][1]
    assert "refused, try 2 of 3" in operator.asked[1][1]


async def test_wrong_passwords_are_a_refusal_that_names_the_method(client_home: Path) -> None:
    async with examiner(client_home, "password") as address:
        operator = Operator(secrets=["1", "2", "3", "pw"])
        with pytest.raises(LinkRefused, match=r"ops may not log in .*tried: .*password"):
            await log_in(address, operator)
    assert operator.secrets == ["pw"]


async def test_a_cancelled_password_is_asked_only_once(client_home: Path) -> None:
    async with examiner(client_home, "password") as address:
        operator = Operator()
        with pytest.raises(LinkRefused, match=r"was cancelled: no answer to .*Password of ops"):
            await log_in(address, operator)
    assert len(operator.asked) == 1


async def test_a_challenge_is_put_question_by_question(client_home: Path) -> None:
    async with examiner(client_home, "challenge") as address:
        operator = Operator(secrets=["red", "4"])
        assert await proves_itself(await log_in(address, operator))
    assert [(prompt, echo) for _, prompt, echo in operator.asked] == [("Colour:", True), ("PIN:", False)]
    assert operator.asked[0][0] == "Door Two␛[31m questions", "what a server says cannot control the terminal"


async def test_the_clock_stands_still_while_a_question_is_open() -> None:
    answer = None
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05) as clock:
            answer = await Asker(Operator(secrets=["yes"], pause_s=0.2), clock).secret("", "")
            await asyncio.sleep(60)
    assert answer == "yes", "the deadline passed while the question was open"
    assert clock.expired(), "and runs on afterwards"
