"""Why an agent ended or never came up, told from its exit status and its last words."""

from __future__ import annotations

import json
import re
import signal

from console.agent.protocol import printable
from console.host.errors import LinkError, LinkRefused

LAST_WORDS_CHARS = 200

_SET_PYTHON = 'install Python 3.9 or newer there or set `python = "/path/to/python3"` for this host'
_LOGIN_REFUSED = (
    "account is currently not available",
    "account has expired",
    "account is disabled",
    "password has expired",
    "not allowed to execute",
    "restricted:",
    "this service allows sftp connections only",
    "shell access",
    "interactive login",
)


def explain_exit(
    status: int | None, stderr_tail: str, python: str, host: str, *, said: str = "", started: bool = False
) -> LinkError:
    """Return the error for an agent that ended, as a sentence.

    ``status`` is the exit status, minus the signal's number when one ended it, None when the link itself broke.
    ``said`` is what arrived on standard output before the agent's first line, ``started`` whether that line came.
    What would end the same way again is a :class:`LinkRefused`.
    """
    if started:
        return LinkError(_ended(status, stderr_tail, host))
    too_old = _fatal_python(said)
    if too_old:
        return LinkRefused(f"{python} on {host} is Python {too_old}, and the agent needs 3.9 or newer; {_SET_PYTHON}")
    words = last_words(stderr_tail) or last_words(said)
    everything = f"{stderr_tail}\n{said}".lower()
    for refusal in _LOGIN_REFUSED:
        if refusal in everything:
            line = next(line for line in everything.splitlines() if refusal in line)
            return LinkRefused(f"{host} lets this user run no command: {_shown(line)}; use an account with a shell")
    if status is None:
        return LinkError(f"The connection to {host} broke before the agent answered{_quoted(words)}")
    if _not_found(status, everything, python):
        return LinkRefused(f"{python} was not found on {host}; {_SET_PYTHON}")
    if status == 126 or "permission denied" in everything:
        return LinkRefused(f"{python} on {host} cannot be run: permission denied; {_SET_PYTHON}")
    if status < 0 or status > 128:
        return LinkError(_ended(status, stderr_tail, host))
    if "traceback" in everything:
        return LinkRefused(f"The agent on {host} failed at its start with {python}{_quoted(words)}")
    return LinkRefused(
        f"The login on {host} ended with exit status {status} before {python} started{_quoted(words)}; "
        f"try: ssh {host} {python} --version"
    )


def last_words(text: str) -> str:
    """Return the last line of ``text`` that says something, safe to show and short."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return _shown(lines[-1]) if lines else ""


def _shown(line: str) -> str:
    shown = printable(line.strip()).rstrip(".")
    return shown if len(shown) <= LAST_WORDS_CHARS else shown[: LAST_WORDS_CHARS - 1] + "…"


def _quoted(words: str) -> str:
    return f": “{words}”" if words else ""


def _ended(status: int | None, stderr_tail: str, host: str) -> str:
    words = _quoted(last_words(stderr_tail))
    if status is None:
        return f"The connection to {host} broke"
    if status < 0 or status > 128:
        number = -status if status < 0 else status - 128
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return f"The agent on {host} was ended by {name}{words}"
    return f"The agent on {host} ended with exit status {status}{words}"


def _fatal_python(said: str) -> str:
    for line in said.splitlines():
        start = line.find("{")
        if start < 0 or '"fatal"' not in line:
            continue
        try:
            event = json.loads(line[start:])
        except ValueError:
            continue
        if isinstance(event, dict) and event.get("ev") == "fatal" and event.get("kind") == "python":
            return _shown(str(event.get("text", "")))
    return ""


def _not_found(status: int, everything: str, python: str) -> bool:
    """Return whether a shell says that there is no such program; csh exits with 1, the others with 127."""
    name = re.escape(python.lower())
    return status == 127 or bool(
        re.search(
            rf"{name}['\"]?: (command )?not found|unknown command:? ['\"]?{name}|{name}: no such file", everything
        )
    )
