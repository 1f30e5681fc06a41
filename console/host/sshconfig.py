"""What ssh config says of a target: where it really is, who logs in, with which keys, by which hops."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.host import hostkeys
from console.host.errors import LinkRefused, SettingsError
from console.host.hostkeys import KnownHost
from console.host.ssh import SshTarget, parse_target

if TYPE_CHECKING:
    from asyncssh import SSHClientConnectionOptions

DEFAULT_CONFIG = "~/.ssh/config"


@dataclass(frozen=True, slots=True)
class Place:
    """A target after ssh config: the values that ssh itself would use."""

    target: SshTarget
    host: str
    port: int
    user: str
    alias: str | None
    """HostKeyAlias."""
    config_files: tuple[str, ...]
    known_hosts_files: tuple[Path, ...]
    own_known_hosts: Path
    identity_files: tuple[Path, ...]
    """IdentityFile, in order; empty for ssh's default names."""
    certificate_files: tuple[Path, ...]
    identities_only: bool
    jump: tuple[SshTarget, ...]
    proxy_command: str | None
    host_key_algorithms: str | None

    def __str__(self) -> str:
        port = "" if self.port == hostkeys.DEFAULT_PORT else f" port {self.port}"
        named = self.target.host if self.target.host == self.host else f"{self.target.host} ({self.host})"
        return named + port

    def known(self) -> KnownHost:
        """Return what known_hosts says of this place. Raises LinkRefused: see :func:`hostkeys.look_up`."""
        return hostkeys.look_up(self.known_hosts_files, self.host, self.port, self.alias)


def resolve(target: SshTarget, config: Path | None, own_known_hosts: Path | None) -> Place:
    """Return the place that ``target`` means under ~/.ssh/config, or under ``config`` alone.

    Raises:
        LinkRefused: ssh config cannot be used; the text names the line.
    """
    import asyncssh

    path = (config or Path(DEFAULT_CONFIG)).expanduser()
    if config is not None and not path.is_file():
        raise LinkRefused(f"The ssh config {path} is not there; correct `ssh_config` for this host")
    files = (str(path),) if path.is_file() else ()
    try:
        options = asyncssh.SSHClientConnectionOptions(
            config=list(files),
            host=target.host,
            port=target.port or (),
            username=target.user or (),
            client_keys=None,
            known_hosts=b"",
        )
    except (ValueError, OSError) as error:
        raise LinkRefused(
            f"The ssh config for {target} cannot be used: {error}; correct it and connect again"
        ) from None
    return _place(target, options, files, (own_known_hosts or Path(hostkeys.OWN_FILE)).expanduser())


def _place(target: SshTarget, options: SSHClientConnectionOptions, files: tuple[str, ...], own: Path) -> Place:
    config = options.config
    alias = options.host_key_alias or None
    tokens = {
        "%": "%",
        "d": str(Path.home()),
        "h": options.host,
        "i": str(os.getuid()),
        "k": alias or target.host,
        "n": target.host,
        "p": str(options.port),
        "r": options.username,
        "u": getpass.getuser(),
    }
    return Place(
        target=target,
        host=options.host,
        port=options.port,
        user=options.username,
        alias=alias,
        config_files=files,
        known_hosts_files=hostkeys.files_to_read(
            _expanded(config.get("UserKnownHostsFile"), tokens),
            _expanded(config.get("GlobalKnownHostsFile"), tokens),
            own,
        ),
        own_known_hosts=own,
        identity_files=_paths(config.get("IdentityFile")),
        certificate_files=_paths(config.get("CertificateFile")),
        identities_only=bool(config.get("IdentitiesOnly")),
        jump=_hops(config.get("ProxyJump"), target),
        proxy_command=_text(config.get("ProxyCommand")),
        host_key_algorithms=_text(config.get("HostKeyAlgorithms")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _paths(value: Any) -> tuple[Path, ...]:
    return tuple(Path(name).expanduser() for name in value or ())


def _expanded(names: Sequence[str] | Any, tokens: dict[str, str]) -> list[str]:
    # asyncssh expands %-tokens in some options, and these are not among them.
    return [re.sub("%(.)", lambda match: tokens.get(match[1], match[0]), name) for name in names or ()]


def _hops(value: Any, target: SshTarget) -> tuple[SshTarget, ...]:
    try:
        return tuple(parse_target(hop) for hop in value.split(",")) if value else ()
    except SettingsError as error:
        raise LinkRefused(f"ProxyJump of {target} in ssh config: {error}") from None
