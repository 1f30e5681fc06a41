"""The way to a host: hop by hop, each host key checked the same way, under one deadline."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

import asyncssh
from asyncssh.public_key import get_default_certificate_algs, get_default_public_key_algs

from console.host import hostkeys
from console.host.errors import LinkRefused
from console.host.hostkeys import AUTHORITY, HOST, REVOKED, KnownHost, Verdict
from console.host.prompts import HostKeyQuestion, Prompts
from console.host.ssh import Keyring, SshTarget, close_all
from console.host.sshconfig import Place, resolve
from console.host.ssherrors import link_error, too_slow
from console.host.sshkeys import Keys, load_keys
from console.host.sshlogin import Asker, Login

KEEPALIVE_INTERVAL_S = 5
KEEPALIVE_COUNT_MAX = 3
MOST_HOPS = 8

# Without a handler, Python prints a library's warnings over the operator's screen.
logging.getLogger("asyncssh").addHandler(logging.NullHandler())

Started = tuple[list[asyncssh.SSHClientConnection], "asyncssh.SSHClientProcess[bytes]"]


class Connector:
    """Opens connections with one set of settings and answers."""

    def __init__(
        self,
        prompts: Prompts,
        *,
        config: Path | None,
        known_hosts: Path | None,
        identity_files: Sequence[Path],
        keyring: Keyring,
    ) -> None:
        self._prompts = prompts
        self._config = config
        self._known_hosts = known_hosts
        self._identity_files = tuple(path.expanduser() for path in identity_files)
        self._keyring = keyring

    async def start(self, target: SshTarget, jump: Sequence[SshTarget], command: str, deadline_s: float) -> Started:
        """Return the connections to ``target`` (the hops first) and ``command`` running there.

        Raises:
            LinkRefused, LinkError: see :func:`console.host.ssh.open_ssh`.
        """
        connections: list[asyncssh.SSHClientConnection] = []
        try:
            async with asyncio.timeout(deadline_s) as clock:
                asker = Asker(self._prompts, clock)
                place = await asyncio.to_thread(resolve, target, self._config, self._known_hosts)
                await self._reach(place, tuple(jump) or place.jump, connections, asker)
                try:
                    process = await connections[-1].create_process(
                        command, encoding=None, request_pty=False, x11_forwarding=False
                    )
                except (asyncssh.Error, OSError) as error:
                    raise link_error(error, place, []) from None
                return connections, process
        except TimeoutError:
            await close_all(connections)
            raise too_slow(str(target), deadline_s) from None
        except BaseException:
            await close_all(connections)
            raise

    async def _reach(
        self,
        place: Place,
        jump: Sequence[SshTarget],
        connections: list[asyncssh.SSHClientConnection],
        asker: Asker,
        depth: int = 0,
    ) -> None:
        """Append a connection for every hop of ``jump`` and one to ``place``."""
        if depth + len(jump) > MOST_HOPS:
            raise LinkRefused(
                f"The way to {place} has more than {MOST_HOPS} hops; look for a ring of ProxyJump in ssh config"
            )
        for index, hop in enumerate(jump):
            there = await asyncio.to_thread(resolve, hop, self._config, self._known_hosts)
            # The first hop may itself be behind others; the rest are reached through the hop before them.
            await self._reach(there, () if index else there.jump, connections, asker, depth + len(jump))
        connections.append(await self._connect(place, connections[-1] if connections else None, asker))

    async def _connect(
        self, place: Place, tunnel: asyncssh.SSHClientConnection | None, asker: Asker
    ) -> asyncssh.SSHClientConnection:
        keys = await asyncio.to_thread(
            load_keys,
            self._identity_files or place.identity_files,
            place.certificate_files,
            only=place.identities_only,
            keyring=self._keyring,
            ask=asker.passphrase,
        )
        while True:
            known = await asyncio.to_thread(place.known)
            login = Login(place, known, asker)
            try:
                return await self._attempt(place, tunnel, known, keys, login)
            except asyncssh.HostKeyNotVerifiable as error:
                # The question comes after the connection is closed: the server's patience for a login is short.
                await settle_host_key(place, known, login.presented, str(error), asker)
            except (asyncssh.Error, OSError, ValueError) as error:
                if asker.unanswered:
                    raise LinkRefused(
                        f"Connecting to {place} was cancelled: no answer to “{asker.unanswered}”"
                    ) from None
                raise link_error(error, place, [*keys.names, *self._agent_name(), *login.tried]) from None

    async def _attempt(
        self,
        place: Place,
        tunnel: asyncssh.SSHClientConnection | None,
        known: KnownHost,
        keys: Keys,
        login: Login,
    ) -> asyncssh.SSHClientConnection:
        return await asyncssh.connect(
            place.target.host,
            place.target.port or (),
            username=place.user,
            config=list(place.config_files),
            tunnel=tunnel,
            proxy_command=_proxy(place) if tunnel is None else None,
            # Never left to ssh config, where `UserKnownHostsFile none` would switch the check off.
            known_hosts=([], _importable(known, AUTHORITY), _importable(known, REVOKED)),
            server_host_key_algs=() if place.host_key_algorithms else _algorithms(known),
            client_factory=lambda: login,
            client_keys=_Exactly(keys.pairs),
            # An empty list would mean all of the agent's keys.
            agent_identities=keys.agent_identities
            if keys.agent_identities is None
            else keys.agent_identities or [b"-"],
            agent_forwarding=False,
            compression_algs=["zlib@openssh.com", "none"],
            keepalive_interval=KEEPALIVE_INTERVAL_S,
            keepalive_count_max=KEEPALIVE_COUNT_MAX,
            connect_timeout=None,
            login_timeout=0,
        )

    @staticmethod
    def _agent_name() -> list[str]:
        return ["the SSH agent"] if os.environ.get("SSH_AUTH_SOCK") else []


async def settle_host_key(place: Place, known: KnownHost, blob: bytes | None, reason: str, asker: Asker) -> None:
    """Ask about an unknown key and store it; raise LinkRefused for every other verdict and for a no."""
    if blob is None:
        revoked = known.of(REVOKED)
        where = f"; see {revoked[0].path} line {revoked[0].line}" if revoked and "revoked" in reason else ""
        raise LinkRefused(f"The host key of {place} cannot be trusted: {reason}{where}")
    verdict = known.judge(blob)
    if verdict is Verdict.CHANGED:
        raise LinkRefused(hostkeys.changed_text(str(place), blob, known))
    if verdict is Verdict.REVOKED:
        raise LinkRefused(hostkeys.revoked_text(str(place), blob, known))
    question = HostKeyQuestion(
        host=place.alias or place.host,
        port=place.port,
        algorithm=hostkeys.algorithm_of(blob),
        fingerprint=hostkeys.fingerprint(blob),
        store_path=str(place.own_known_hosts),
    )
    if not await asker.accept_host_key(question):
        raise LinkRefused(
            f"The host key of {place} ({question.algorithm} {question.fingerprint}) is in no known_hosts file "
            "and was not accepted; connect once with the console's screen or with ssh and compare the fingerprint"
        )
    await asyncio.to_thread(hostkeys.store, place.own_known_hosts, known.name, blob)


class _Exactly(list[asyncssh.SSHKeyPair]):
    """Key pairs that the default ones do not replace when there are none: asyncssh takes an empty list for "any"."""

    def __bool__(self) -> bool:
        return True


def _importable(known: KnownHost, role: str) -> list[asyncssh.SSHKey]:
    keys = []
    for key in known.of(role):
        try:
            keys.append(asyncssh.import_public_key(key.openssh))
        except asyncssh.KeyImportError:
            continue
    return keys


def _algorithms(known: KnownHost) -> list[str]:
    """Return host key algorithms, those of known keys first: a second key of the host must not look like a changed one.

    The others stay in, so that a host which no longer has the known key is seen as changed and not as incompatible.
    """
    preferred = [algorithm for key in _importable(known, HOST) for algorithm in key.sig_algorithms]
    certificates = get_default_certificate_algs() if known.of(AUTHORITY) else []
    ordered = dict.fromkeys([*certificates, *preferred, *get_default_public_key_algs()])
    return [algorithm.decode("ascii") for algorithm in ordered]


def _proxy(place: Place) -> list[str] | None:
    """Return ProxyCommand as ssh runs it, by a shell, with its error output thrown away.

    asyncssh would take the error output for a part of the SSH stream, and its end for the end of the connection: so a
    copy of it stays open as handle 3.
    """
    if not place.proxy_command:
        return None
    return ["/bin/sh", "-c", 'exec /bin/sh -c "$1" 3>&2 2>/dev/null', "sh", f"exec {place.proxy_command}"]
