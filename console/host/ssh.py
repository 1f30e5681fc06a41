"""An agent on a far host, over one SSH channel. asyncssh is imported when the first connection is made, not before."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import shlex
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.agent.protocol import printable
from console.host.bootstrap import BOOTSTRAP
from console.host.channel import LineReader, Tail
from console.host.ending import explain_exit
from console.host.errors import LinkError, SettingsError
from console.host.prompts import Prompts

if TYPE_CHECKING:
    import asyncssh

    from console.host.sshconnect import Connector

CONNECT_DEADLINE_S = 15.0
END_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class SshTarget:
    """Where to: an alias of ssh config or a host name or address. None means: as ssh config says."""

    host: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]:{self.port}" if self.port and ":" in self.host else self.host
        host = f"{host}:{self.port}" if self.port and ":" not in self.host else host
        return f"{self.user}@{host}" if self.user else host


@dataclass(slots=True)
class Keyring:
    """Keys that were unlocked in this run, by file, in memory only: a reconnect does not ask again."""

    unlocked: dict[Path, asyncssh.SSHKey] = field(default_factory=dict)


def parse_target(text: str) -> SshTarget:
    """Return the target in ``alias``, ``user@host``, ``host:port`` or ``user@[::1]:port``.

    Raises:
        SettingsError: it is none of these.
    """
    user, at, place = text.strip().rpartition("@")
    if place.startswith("["):
        host, bracket, rest = place[1:].partition("]")
        port, well_formed = rest[1:], bool(bracket) and (not rest or (len(rest) > 1 and rest[0] == ":"))
    elif place.count(":") == 1:
        host, _, port = place.partition(":")
        well_formed = bool(port)
    else:
        # More than one colon without brackets is an IPv6 address.
        host, port, well_formed = place, "", True
    names = [host, user] if at else [host]
    if not well_formed or not all(_is_name(name) for name in names):
        raise SettingsError(f"“{printable(text)}” is not an SSH target; write an alias of ssh config or user@host:port")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise SettingsError(f"“{printable(text)}” names port {port}; a port is a number from 1 to 65535")
    return SshTarget(host, user or None, int(port) if port else None)


def _is_name(text: str) -> bool:
    return bool(text) and text.isprintable() and not text.startswith("-") and not set(text) & set(" []\"'\\")


def remote_command(python: str) -> str:
    """Return the command for the user's shell on the host, whichever shell it is.

    Raises:
        SettingsError: ``python`` cannot be the path of a program.
    """
    if not python or not python.isprintable() or python.startswith("-"):
        raise SettingsError(f"`python` is {python!r}; it must be the name or the path of a Python on the host")
    home, slash, rest = python.partition("/")
    # A quoted ~ would not be the home folder.
    quoted = f"~/{shlex.quote(rest)}" if home == "~" and slash and rest else shlex.quote(python)
    return f"exec {quoted} -u -c '{BOOTSTRAP}'"


async def open_ssh(
    target: SshTarget,
    bundle: bytes,
    prompts: Prompts,
    *,
    python: str = "python3",
    identity_files: Sequence[Path] = (),
    jump: Sequence[SshTarget] = (),
    config: Path | None = None,
    known_hosts: Path | None = None,
    deadline_s: float = CONNECT_DEADLINE_S,
    keyring: Keyring | None = None,
) -> SshChannel:
    """Log in on ``target``, start an agent there and send it ``bundle``.

    ``jump`` are the hops, first one first; without any, ProxyJump of ssh config counts. ``config`` replaces
    ~/.ssh/config, ``known_hosts`` is where accepted host keys go. ``deadline_s`` does not run while a prompt is open.
    ``keyring`` keeps unlocked keys from one connection to the next.

    Raises:
        LinkRefused: another try would end the same way: host key, authentication, configuration, a cancelled prompt.
        LinkError: the host cannot be reached now.
    """
    command = remote_command(python)
    # Its import takes most of a second: not on the loop that draws the screen.
    sshconnect = await asyncio.to_thread(importlib.import_module, "console.host.sshconnect")
    connector: Connector = sshconnect.Connector(
        prompts,
        config=config,
        known_hosts=known_hosts,
        identity_files=identity_files,
        keyring=Keyring() if keyring is None else keyring,
    )
    connections, process = await connector.start(target, jump, command, deadline_s)
    channel = SshChannel(process, connections, python, str(target))
    channel.write(bundle)
    return channel


class SshChannel:
    """The channel to a far agent; see :class:`console.host.channel.Channel`."""

    def __init__(
        self,
        process: asyncssh.SSHClientProcess[bytes],
        connections: Sequence[asyncssh.SSHClientConnection],
        python: str,
        host: str,
    ) -> None:
        self._process = process
        self._connections = connections
        self._python = python
        self._host = host
        self._lines = LineReader(lambda count: _read(process.stdout, count))
        self._stderr = Tail(lambda count: _read(process.stderr, count))

    @property
    def received_at(self) -> float:
        """Local monotonic seconds when bytes last arrived."""
        return self._lines.received_at

    async def readline(self) -> bytes:
        """Return the next line, b"" at the end."""
        return await self._lines.readline()

    def write(self, data: bytes) -> None:
        """Queue ``data`` for the agent."""
        with contextlib.suppress(OSError):
            self._process.stdin.write(data)

    async def drain(self) -> None:
        """Wait until the queue is short."""
        import asyncssh

        with contextlib.suppress(OSError, asyncssh.Error):
            await self._process.stdin.drain()

    async def close(self) -> None:
        """Give the agent the end of its input, then close every connection, the hops last."""
        with contextlib.suppress(OSError):
            self._process.stdin.write_eof()
        await _within(END_PATIENCE_S, self._process.wait_closed())
        self._process.close()
        await close_all(self._connections)
        await self._stderr.close()

    async def explain(self, said: str, *, started: bool) -> LinkError:
        """Return why the agent or the connection ended."""
        await _within(END_PATIENCE_S, self._process.wait_closed())
        status = self._process.returncode
        return explain_exit(status, await self._stderr.text(), self._python, self._host, said=said, started=started)


async def close_all(connections: Sequence[asyncssh.SSHClientConnection]) -> None:
    """Close ``connections``, the last one first, and wait for each for a short while."""
    for connection in reversed(connections):
        connection.close()
        if not await _within(END_PATIENCE_S, connection.wait_closed()):
            connection.abort()


async def _read(stream: asyncssh.SSHReader[bytes], count: int) -> bytes:
    import asyncssh

    try:
        return await stream.read(count)
    except (OSError, asyncssh.Error):
        # The connection broke; what it was comes from explain().
        return b""


async def _within(seconds: float, waiting: Coroutine[Any, Any, None]) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return False
    return True
