"""A channel to an agent: bytes both ways, and why it ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from console.agent import protocol
from console.host.errors import LinkError

CHUNK_BYTES = 64 * 1024
STDERR_TAIL_BYTES = 8 * 1024


class Channel(Protocol):
    """A running agent, near or far."""

    @property
    def received_at(self) -> float:
        """Local monotonic seconds when bytes last arrived: a long line on a slow link is life, not silence."""
        ...

    async def readline(self) -> bytes:
        r"""Return the next line with its ``\n``; without one when it is the last; b"" at the end.

        Raises:
            LinkError: the line is longer than the protocol allows.
        """
        ...

    def write(self, data: bytes) -> None:
        """Queue ``data`` for the agent; bytes for an agent that is gone are dropped."""
        ...

    async def drain(self) -> None:
        """Wait until the queue is short; returns at once when the agent is gone."""
        ...

    async def close(self) -> None:
        """Give the agent the end of its input and let go of everything, within seconds."""
        ...

    async def explain(self, said: str, *, started: bool) -> LinkError:
        """Return why the channel ended (:class:`LinkRefused` where another try would end the same way).

        ``said`` is what arrived before the agent's first line; ``started`` tells whether that line ever came.
        """
        ...


class LineReader:
    """Lines from chunks. Holds at most one line and one chunk, so the other end feels the back-pressure."""

    def __init__(self, read: Callable[[int], Awaitable[bytes]], most_bytes: int = protocol.MAX_LINE_BYTES) -> None:
        self._read = read
        self._most_bytes = most_bytes
        self._buffer = bytearray()
        self._searched = 0
        self.received_at = time.monotonic()

    async def readline(self) -> bytes:
        """Return the next line; see :meth:`Channel.readline`."""
        while True:
            end = self._buffer.find(b"\n", self._searched) + 1
            if end:
                return self._take(end)
            self._searched = len(self._buffer)
            if self._searched > self._most_bytes:
                raise LinkError(f"a line of more than {self._most_bytes} bytes arrived, which no agent sends")
            chunk = await self._read(CHUNK_BYTES)
            if not chunk:
                return self._take(len(self._buffer))
            self.received_at = time.monotonic()
            self._buffer += chunk

    def _take(self, count: int) -> bytes:
        line = bytes(self._buffer[:count])
        del self._buffer[:count]
        self._searched = 0
        return line


class Tail:
    """Reads a stream to its end and keeps its last bytes, so that a full pipe never stops the other end."""

    def __init__(self, read: Callable[[int], Awaitable[bytes]]) -> None:
        self._read = read
        self._bytes = b""
        self._task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        while chunk := await self._read(CHUNK_BYTES):
            self._bytes = (self._bytes + chunk)[-STDERR_TAIL_BYTES:]

    async def text(self, patience_s: float = 1.0) -> str:
        """Return what arrived last, after waiting up to ``patience_s`` for the end of the stream."""
        await asyncio.wait([self._task], timeout=patience_s)
        return self._bytes.decode("utf-8", "replace")

    async def close(self) -> None:
        """Stop reading."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
