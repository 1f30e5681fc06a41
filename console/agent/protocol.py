"""The conversation between a console and the agent on a GPU host: one JSON object a line.

This module is shared by both ends, so it runs on Python >= 3.9 with nothing but the standard library.

Lines from the agent
    ``{"ev": NAME, "seq": n, "t": monotonic_s, ...}``       an event; ``seq`` counts every line, gaps mean loss
    ``{"id": n, "seq": n, "t": ..., "ok": {...}}``           the answer to request ``n``
    ``{"id": n, "seq": n, "t": ..., "error": {"kind": K, "text": sentence, ...}}``
Lines to the agent
    ``{"id": n, "op": NAME, ...}``

Text from the host may hold bytes that are not UTF-8. They travel as lone surrogates (PEP 383) in ASCII-escaped JSON, so
nothing is lost; whoever shows them must call :func:`printable` first.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple

VERSION = 1
"""Raised on every change of meaning; a console refuses an agent of another version."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is a fault of the other end, never a reason to grow without bound."""

# Events
HELLO = "hello"
PROCS = "procs"
GPUS = "gpus"
GAUGES = "gauges"
PAUSES = "pauses"
ACTION = "action"
ALERT = "alert"
FAULT = "fault"

# Requests
START = "start"
PING = "ping"
PLAN = "plan"
SIGNAL = "signal"
FATE = "fate"
DETAIL = "detail"
AUDIT = "audit"

# Actions on a set of processes
PAUSE, RESUME, STOP, KILL = "pause", "resume", "stop", "kill"
ACTIONS = (PAUSE, RESUME, STOP, KILL)

# Scopes of an action
TREE, ONLY = "tree", "only"
SCOPES = (TREE, ONLY)

# Kinds of error
REFUSED = "refused"
BAD_REQUEST = "bad_request"
NOT_FOUND = "not_found"
INTERNAL = "internal"

Identity = Tuple[str, int, int]
"""``(boot_id, pid, start_ticks)``: the only name of a process that cannot come to mean another one."""


class ProtocolError(Exception):
    """A line that is not part of this conversation; the text says what was wrong with it."""


def encode(message: Dict[str, Any]) -> bytes:
    """Return ``message`` as one ASCII JSON line, newline included."""
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> Dict[str, Any]:
    """Return the message in ``line``.

    Raises:
        ProtocolError: the line is not one JSON object.
    """
    if len(line) > MAX_LINE_BYTES:
        raise ProtocolError("a line of %d bytes is longer than the protocol allows" % len(line))
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("not a JSON line (%s): %r" % (error, line[:80])) from None
    if not isinstance(message, dict):
        raise ProtocolError("a line holds %s, not an object: %r" % (type(message).__name__, line[:80]))
    return message


def identity(value: Any) -> Identity:
    """Return ``value`` as an identity after checking its shape: ``[boot_id, pid, start_ticks]``.

    Raises:
        ProtocolError: it is anything else; in particular a bare pid is never an identity.
    """
    if (
        isinstance(value, (list, tuple))
        and len(value) == 3
        and isinstance(value[0], str)
        and all(isinstance(part, int) and not isinstance(part, bool) for part in value[1:])
        and value[1] > 0
        and value[2] >= 0
    ):
        return (value[0], value[1], value[2])
    raise ProtocolError("not an identity [boot_id, pid, start_ticks]: %r" % (value,))


def printable(text: str) -> str:
    """Return ``text`` safe to show: undecodable bytes, control and direction characters made visible."""
    if text.isascii() and text.isprintable():
        return text
    out: List[str] = []
    for char in text:
        code = ord(char)
        if 0xD800 <= code <= 0xDFFF:
            out.append("\ufffd")
        elif char == "\n":
            out.append("\u23ce")
        elif char == "\t":
            out.append("\u21e5")
        elif code < 0x20:
            out.append(chr(0x2400 + code))
        elif code == 0x7F:
            out.append("\u2421")
        elif not char.isprintable() and char != " ":
            out.append("\ufffd")
        else:
            out.append(char)
    return "".join(out)


def command_line(argv: Sequence[str], comm: Optional[str] = None) -> str:
    """Return an argument vector for showing: quoted where a shell would need it, ``[comm]`` when there is none."""
    shown = list(argv)
    while shown and not shown[-1]:
        # A process that set its own title leaves the rest of its argument area as empty strings.
        shown.pop()
    if not shown:
        return "[%s]" % printable(comm or "?")
    return " ".join(_quoted(arg) for arg in shown)


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./-_[]{}<>()*#~")


def _quoted(arg: str) -> str:
    shown = printable(arg)
    if shown and (set(shown) <= _PLAIN or not any(c in " '\"\\$`" for c in shown)):
        return shown
    return "'" + shown.replace("'", "'\\''") + "'"
