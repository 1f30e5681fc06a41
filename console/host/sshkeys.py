"""The private keys of a login, unlocked by passphrase only once the host has said that it takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh

from console.host.errors import LinkRefused
from console.host.ssh import Keyring

DEFAULT_NAMES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
PASSPHRASE_TRIES = 3

AskPassphrase = Callable[[Path, int], Awaitable[str | None]]
"""Asks for the passphrase of a file, given how many tries were wrong so far; None when the operator gave up."""


@dataclass(slots=True)
class Keys:
    """What one login offers: key pairs, which of the SSH agent's keys (None: all), and their names for errors."""

    pairs: list[asyncssh.SSHKeyPair] = field(default_factory=list)
    agent_identities: list[bytes] | None = None
    names: list[str] = field(default_factory=list)


class LockedKeyPair(asyncssh.SSHKeyPair):
    """A pair whose private half is unlocked when the first signature is asked for."""

    _key_type = "local"

    def __init__(
        self,
        public: asyncssh.SSHKey,
        certificate: asyncssh.SSHCertificate | None,
        unlock: Callable[[], Awaitable[asyncssh.SSHKey]],
    ) -> None:
        algorithms = public.sig_algorithms
        super().__init__(
            public.algorithm, public.algorithm, algorithms, algorithms, public.public_data, None, certificate
        )
        self._unlock = unlock

    async def sign_async(self, data: bytes) -> bytes:
        """Return a signature; raises ValueError when the key stays locked, and asyncssh goes on to the next key."""
        key = await self._unlock()
        signature: bytes = key.sign(data, self.sig_algorithm)
        return signature


def load_keys(
    files: Sequence[Path], certificates: Sequence[Path], *, only: bool, keyring: Keyring, ask: AskPassphrase
) -> Keys:
    """Return the keys of ``files``, or of ssh's default names where there are none.

    Files that are not there are passed over, as ssh does. ``only`` limits the SSH agent to these keys.

    Raises:
        LinkRefused: a file that was named cannot be used.
    """
    keys = Keys()
    named = bool(files)
    for path in files or [Path("~/.ssh", name).expanduser() for name in DEFAULT_NAMES]:
        try:
            _load_one(path, certificates, keys, keyring, ask)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if named:
                raise LinkRefused(f"The key {path} cannot be used: {reason}") from None
    if only:
        keys.agent_identities = [pair.public_data for pair in keys.pairs] + (keys.agent_identities or [])
    else:
        keys.agent_identities = None
    return keys


def _load_one(path: Path, certificates: Sequence[Path], keys: Keys, keyring: Keyring, ask: AskPassphrase) -> None:
    public = _public_half(path)
    if not path.is_file():
        # Only its public half is here: the SSH agent may hold the rest.
        keys.agent_identities = [*(keys.agent_identities or []), *([public.public_data] if public else [])]
        return
    data = path.read_bytes()
    if b"PRIVATE KEY" not in data:
        keys.agent_identities = [*(keys.agent_identities or []), *([public.public_data] if public else [])]
        return
    try:
        private = keyring.unlocked.get(path) or asyncssh.import_private_key(data)
    except asyncssh.KeyImportError as error:
        if "assphrase" not in str(error):
            raise
        if public is None:
            raise ValueError(
                f"it has a passphrase and no public half; run: ssh-keygen -y -f {path} > {path}.pub"
            ) from None
        unlock = _unlocker(path, data, keyring, ask)
        pairs: list[asyncssh.SSHKeyPair] = [
            LockedKeyPair(public, certificate, unlock)
            for certificate in [*_certificates(path, certificates, public), None]
        ]
    else:
        found = _certificates(path, certificates, private.convert_to_public())
        pairs = [pair for certificate in found for pair in asyncssh.load_keypairs([(private, certificate)])]
        pairs = pairs or list(asyncssh.load_keypairs([private]))
    keys.pairs += pairs
    keys.names.append(str(path))


def _unlocker(
    path: Path, data: bytes, keyring: Keyring, ask: AskPassphrase
) -> Callable[[], Awaitable[asyncssh.SSHKey]]:
    async def unlock() -> asyncssh.SSHKey:
        if path in keyring.unlocked:
            return keyring.unlocked[path]
        for wrong in range(PASSPHRASE_TRIES):
            passphrase = await ask(path, wrong)
            if passphrase is None:
                break
            try:
                # Deriving the key takes a tenth of a second and more.
                key = await asyncio.to_thread(asyncssh.import_private_key, data, passphrase)
            except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError):
                continue
            keyring.unlocked[path] = key
            return key
        raise ValueError(f"{path} stays locked")

    return unlock


def _public_half(path: Path) -> asyncssh.SSHKey | None:
    for candidate in (path.with_name(path.name + ".pub"), path):
        try:
            return asyncssh.read_public_key(candidate)
        except (OSError, ValueError):
            continue
    return None


def _certificates(path: Path, named: Sequence[Path], public: asyncssh.SSHKey) -> list[asyncssh.SSHCertificate]:
    found = []
    for candidate in (path.with_name(path.name + "-cert.pub"), *named):
        try:
            certificate = asyncssh.read_certificate(candidate)
        except (OSError, ValueError):
            continue
        if certificate.key.public_data == public.public_data:
            found.append(certificate)
    return found
