"""Asking and telling on a plain terminal."""

from __future__ import annotations

import asyncio
import getpass
import json
import shutil
import sys
from collections.abc import Iterable
from typing import Any

from console.agent.protocol import printable
from console.host.prompts import HostKeyQuestion

MIN_WIDTH = 60


def interactive() -> bool:
    """Return whether somebody can be asked: both input and messages are on a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def width() -> int:
    """Return the cells of a line of output; wide when it goes to a file or a pipe."""
    return max(MIN_WIDTH, shutil.get_terminal_size((200, 50)).columns) if sys.stdout.isatty() else 200


def say(text: str) -> None:
    """Print a message for the operator; results go to standard output, messages do not."""
    print(text, file=sys.stderr, flush=True)


def show(lines: Iterable[str]) -> None:
    """Print lines of a result."""
    for line in lines:
        print(line.rstrip())


def show_json(value: Any) -> None:
    """Print a result as JSON; ASCII only, so undecodable bytes of the host survive."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=True)
    print()


class TerminalPrompts:
    """Answers a connection's questions on the terminal, or by what the command line said, or with no."""

    def __init__(self, accept_host_key: str | None) -> None:
        self._accepted = accept_host_key
        self.unanswered: HostKeyQuestion | None = None
        """A host key that nobody accepted, because nobody could be asked or another one was named."""
        self.why = ""

    async def accept_host_key(self, question: HostKeyQuestion) -> bool:
        """Return True when the operator trusts this key."""
        if self._accepted is not None:
            if self._accepted != question.fingerprint:
                self.unanswered, self.why = question, "and --accept-host-key names another one"
            return self._accepted == question.fingerprint
        if not interactive():
            self.unanswered, self.why = question, "and nobody can be asked"
            return False
        say(f"The key of {printable(question.host)}, port {question.port}, is not known yet:")
        say(f"  {question.algorithm}  {question.fingerprint}")
        say(
            "Compare it with what the host's own console prints for `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub`."
        )
        return await asyncio.to_thread(confirm, f"Trust it and store it in {question.store_path}?")

    async def secret(self, title: str, prompt: str, *, echo: bool = False) -> str | None:
        """Return what the operator types; None where nobody can be asked."""
        if not interactive():
            return None
        say(printable(title))
        return await asyncio.to_thread(_read_secret, printable(prompt).rstrip(": ") + ": ", echo)


def confirm(question: str) -> bool:
    """Return True only for a typed yes."""
    sys.stderr.write(f"{question} Type yes to go on: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() == "yes"


def _read_secret(prompt: str, echo: bool) -> str | None:
    try:
        if echo:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            return sys.stdin.readline().rstrip("\n")
        return getpass.getpass(prompt)
    except (EOFError, KeyboardInterrupt):
        return None
