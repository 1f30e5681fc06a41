"""Asking and telling on a plain terminal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import termios
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from console.agent.protocol import printable
from console.host.prompts import HostKeyQuestion

MIN_WIDTH = 60

T = TypeVar("T")


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
        return await confirmed(f"Trust it and store it in {question.store_path}?")

    async def secret(self, title: str, prompt: str, *, echo: bool = False) -> str | None:
        """Return what the operator types; None where nobody can be asked."""
        if not interactive():
            return None
        say(printable(title))
        with _terminal_as_it_was():
            if not echo:
                # Here and not in the thread that reads: nothing may switch it off after it was given back.
                _switch_echo_off()
            sys.stderr.write(printable(prompt).rstrip(": ") + ": ")
            sys.stderr.flush()
            line = await _unless_interrupted(_read_line)
            if not echo:
                say("")
            return line.rstrip("\n") if line else None


async def confirmed(question: str) -> bool:
    """Return True only for a typed yes."""
    sys.stderr.write(f"{question} Type yes to go on: ")
    sys.stderr.flush()
    return (await _unless_interrupted(_read_line)).strip().lower() == "yes"


async def _unless_interrupted(read: Callable[[], T]) -> T:
    """Return what ``read`` returns; Ctrl+C ends the wait for it at once.

    A thread of an executor would be waited for at the end, until the operator presses Enter after all.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def settle(value: T) -> None:
        if not answer.done():
            answer.set_result(value)

    def work() -> None:
        value = read()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, value)

    threading.Thread(target=work, name="terminal", daemon=True).start()
    return await answer


@contextlib.contextmanager
def _terminal_as_it_was() -> Iterator[None]:
    """Give back the terminal with its echo, however the body ends."""
    before = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _switch_echo_off() -> None:
    settings = termios.tcgetattr(sys.stdin)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSAFLUSH, settings)


def _read_line() -> str:
    # Not sys.stdin: a thread that waits in it holds a lock which the interpreter needs at its end.
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(sys.stdin.fileno(), 4096)
        if not piece:
            break
        line += piece
    return line.decode("utf-8", "replace")
