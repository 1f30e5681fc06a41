"""Answers to what a server asks during one login: is this its key, who are you."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import asyncssh

from console.agent.protocol import printable
from console.host.hostkeys import KnownHost, Verdict
from console.host.prompts import HostKeyQuestion, Prompts
from console.host.sshconfig import Place

ROUNDS = 3
"""How often a password or a challenge is answered before the login counts as refused; sshd allows six failures."""


class Asker:
    """Passes questions on, and stops the clock of the connection while one is open."""

    def __init__(self, prompts: Prompts, clock: asyncio.Timeout) -> None:
        self._prompts = prompts
        self._clock = clock
        self.unanswered = ""
        """The question that the operator gave up on."""

    async def accept_host_key(self, question: HostKeyQuestion) -> bool:
        """Return True to trust and store the key."""
        with self._clock_stopped():
            return await self._prompts.accept_host_key(question)

    async def secret(self, title: str, prompt: str, *, echo: bool = False) -> str | None:
        """Return the answer; None, now and for every later question, once the operator gave up on one."""
        if self.unanswered:
            return None
        with self._clock_stopped():
            answer = await self._prompts.secret(title, prompt, echo=echo)
        if answer is None:
            self.unanswered = f"{title}: {prompt.strip()}".rstrip(":")
        return answer

    async def passphrase(self, path: Path, wrong: int) -> str | None:
        """Return the passphrase of a key file, after ``wrong`` ones."""
        again = f" (wrong, try {wrong + 1} of 3)" if wrong else ""
        return await self.secret("Passphrase needed", f"Passphrase of {path}{again}:")

    @contextlib.contextmanager
    def _clock_stopped(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        due = self._clock.when()
        left = None if due is None else max(0.0, due - loop.time())
        self._clock.reschedule(None)
        try:
            yield
        finally:
            if left is not None and not self._clock.expired():
                with contextlib.suppress(RuntimeError):
                    # The connection may have ended while the question was open.
                    self._clock.reschedule(loop.time() + left)


class Login(asyncssh.SSHClient):
    """One login on one place: judges the host key by known_hosts and answers from the operator."""

    def __init__(self, place: Place, known: KnownHost, asker: Asker) -> None:
        self._place = place
        self._known = known
        self._asker = asker
        self._passwords = 0
        self._challenges = 0
        self.presented: bytes | None = None
        """The host key that was not trusted."""
        self.tried: list[str] = []

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Return whether known_hosts has this key for the place."""
        trusted = self._known.judge(key.public_data) is Verdict.TRUSTED
        self.presented = None if trusted else key.public_data
        return trusted

    async def password_auth_requested(self) -> str | None:
        """Return a password, None after three."""
        if self._passwords >= ROUNDS:
            return None
        self._passwords += 1
        self._note("password")
        again = f" (refused, try {self._passwords} of {ROUNDS})" if self._passwords > 1 else ""
        return await self._asker.secret(f"Log in on {self._place}", f"Password of {self._place.user}{again}:")

    def kbdint_auth_requested(self) -> str | None:
        """Return "" to let the server choose the questions, None after three rounds."""
        if self._challenges >= ROUNDS or self._asker.unanswered:
            return None
        self._challenges += 1
        return ""

    async def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Return the operator's answers to a challenge; None when one of them was refused."""
        answers: list[str] = []
        title = " ".join(printable(part.strip()) for part in (name, instructions) if part.strip())
        for prompt, echo in prompts:
            self._note("keyboard-interactive")
            answer = await self._asker.secret(title or f"Log in on {self._place}", printable(prompt.strip()), echo=echo)
            if answer is None:
                return None
            answers.append(answer)
        return answers

    def _note(self, method: str) -> None:
        if method not in self.tried:
            self.tried.append(method)
