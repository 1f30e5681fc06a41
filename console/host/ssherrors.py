"""SSH failures as sentences, and whether another try can help."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Sequence

import asyncssh

from console.agent.protocol import printable
from console.host.errors import LinkError, LinkRefused
from console.host.sshconfig import Place


def too_slow(host: str, deadline_s: float) -> LinkError:
    """Return the error for a connection that was not made in time."""
    return LinkError(f"{host} did not answer within {deadline_s:g} s; is it up, and is the way to it open?")


def link_error(error: Exception, place: Place, tried: Sequence[str]) -> LinkError:
    """Return what ``error`` means for a connection to ``place``; ``tried`` are the ways to log in that were offered."""
    reason = printable(str(error)).rstrip(".")
    if isinstance(error, asyncssh.PermissionDenied) or "oo many authentication failures" in reason:
        offered = ", ".join(tried) or "no key, since none was found"
        return LinkRefused(
            f"{place.user} may not log in on {place}; tried: {offered}. Add one of these keys to "
            "~/.ssh/authorized_keys there, or set `identity_files` for this host"
        )
    if isinstance(error, asyncssh.KeyExchangeFailed):
        return LinkRefused(f"{place} and this console share no encryption that both allow: {reason}")
    if isinstance(error, (asyncssh.ProtocolNotSupported, asyncssh.ProtocolError)):
        return LinkRefused(f"{place} does not speak SSH as expected ({reason}); is this the right port?")
    if isinstance(error, asyncssh.ChannelOpenError):
        return _channel_error(error, place, reason)
    if isinstance(error, asyncssh.Error):
        via = " ProxyCommand may have failed: run it in a terminal to see." if place.proxy_command else ""
        return LinkError(f"{place} closed the connection during the login: {reason}.{via}".rstrip("."))
    if isinstance(error, OSError):
        return _network_error(error, place)
    return LinkRefused(f"The connection to {place} cannot be set up: {reason}")


def _channel_error(error: asyncssh.ChannelOpenError, place: Place, reason: str) -> LinkError:
    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
        return LinkRefused(
            f"The way to {place} is closed by the server's rules (AllowTcpForwarding, sessions): {reason}"
        )
    return LinkError(f"The hop before {place} could not reach it: {reason}")


def _network_error(error: OSError, place: Place) -> LinkError:
    if isinstance(error, socket.gaierror):
        return LinkError(f"The name {place.host} could not be resolved: {error.strerror}; check the host's address")
    number = error.errno or _first_errno(str(error))
    if number == errno.ECONNREFUSED:
        return LinkError(f"{place.host} refuses connections on port {place.port}; is sshd running there?")
    if number == errno.ENOENT and place.proxy_command:
        return LinkRefused(f"ProxyCommand of {place} cannot be run: {error.strerror}")
    what = os.strerror(number) if number else str(error)
    return LinkError(f"{place} cannot be reached: {what[:1].lower()}{what[1:]}")


def _first_errno(text: str) -> int:
    """Return the number in asyncio's "Multiple exceptions: [Errno 111] Connect call failed …", 0 without one."""
    match = re.search(r"\[Errno (\d+)\]", text)
    return int(match[1]) if match else 0
