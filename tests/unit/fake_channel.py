"""A channel in memory: the test is the agent."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from console.agent import protocol
from console.host.errors import LinkError


class FakeChannel:
    """Lines put in by :meth:`say`; what the console wrote is in ``written``."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._seq = 0
        self.written: list[dict[str, Any]] = []
        self.heard = asyncio.Event()
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.may_explain = asyncio.Event()
        self.may_explain.set()
        self.closed = False
        self.received_at = time.monotonic()
        self.reason = LinkError("the fake broke")
        self.explained: list[tuple[str, bool]] = []

    def raw(self, line: bytes) -> None:
        """Put in bytes as they are; b"" is the end."""
        self._lines.put_nowait(line)

    def say(self, **message: Any) -> None:
        """Put in a message with the next number."""
        self._seq += 1
        self.raw(protocol.encode({"seq": self._seq, "t": float(self._seq), **message}))

    def hello(self, **changes: Any) -> None:
        """Put in a hello."""
        values = {"hostname": "h", "boot_id": "b", "uid": 0, "user": "root", "python": "3.11", "kernel": "6"}
        values |= {"clk_tck": 100, "pid": 1, "start_ticks": 1, "can": {}, "version": protocol.VERSION}
        self.say(ev="hello", **{**values, **changes})

    async def answer(self, op: str, **reply: Any) -> dict[str, Any]:
        """Wait for the next request ``op`` and answer it; pings on the way are answered too."""
        request = await self.request(op)
        self.say(id=request["id"], **(reply or {"ok": {}}))
        return request

    async def request(self, op: str) -> dict[str, Any]:
        """Wait for the next request ``op`` and take it; pings on the way are answered."""
        async with asyncio.timeout(60):
            while True:
                while self.written:
                    request = self.written.pop(0)
                    if request["op"] == op:
                        return request
                    if request["op"] == protocol.PING:
                        self.say(id=request["id"], ok={})
                self.heard.clear()
                await self.heard.wait()

    async def readline(self) -> bytes:
        line = await self._lines.get()
        self.received_at = time.monotonic()
        return line

    def write(self, data: bytes) -> None:
        self.written.append(json.loads(data))
        self.heard.set()

    async def drain(self) -> None:
        await self.flowing.wait()

    async def close(self) -> None:
        self.closed = True

    async def explain(self, said: str, *, started: bool) -> LinkError:
        self.explained.append((said, started))
        await self.may_explain.wait()
        return self.reason
