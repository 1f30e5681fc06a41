"""The questions a connection may ask the operator, answered by dialogs, by a terminal, or by nobody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class HostKeyQuestion:
    """First contact: the key is in no known_hosts file."""

    host: str
    port: int
    algorithm: str
    fingerprint: str
    """``SHA256:…`` as `ssh-keygen -lf` prints it."""
    store_path: str


class Prompts(Protocol):
    """Answers to what a connection must ask. Every method may be cancelled by a deadline."""

    async def accept_host_key(self, question: HostKeyQuestion) -> bool:
        """Return True to trust and store this key."""
        ...

    async def secret(self, title: str, prompt: str, *, echo: bool = False) -> str | None:
        """Return a passphrase, a password or a keyboard-interactive answer; None when the operator gave up."""
        ...


class NoPrompts:
    """Nobody is there: every question is answered with no."""

    async def accept_host_key(self, question: HostKeyQuestion) -> bool:
        """Return False: a key nobody looked at is not trusted."""
        return False

    async def secret(self, title: str, prompt: str, *, echo: bool = False) -> str | None:
        """Return None."""
        return None
