"""Session: one conversation over one channel, from its hello to its loss."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from console.agent import protocol
from console.agent.protocol import ProtocolError
from console.host.channel import Channel
from console.host.ending import last_words
from console.host.errors import LinkError, LinkRefused, RequestError

NOISE_BYTES = 64 * 1024
"""So much a login may print (from .bashrc, from site.py) before the agent's first line."""

BAD_LINES = 5
"""More lines that are no messages than this mean that the two ends are out of step."""

RTT_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Pace:
    """The deadlines of a conversation, in seconds."""

    hello_s: float = 10.0
    start_s: float = 10.0
    ping_every_s: float = 2.0
    ping_deadline_s: float = 2.0
    missed_in_silence: int = 3
    """Pings without an answer and without any other byte from the host: the link is lost."""
    missed_at_all: int = 12
    """Pings without an answer although other bytes arrive, as during one long line on a slow link."""


class Session:
    """Requests, answers and events of one agent. ``on_event`` may raise ProtocolError for an event it cannot read."""

    def __init__(
        self,
        channel: Channel,
        name: str,
        pace: Pace,
        on_event: Callable[[Mapping[str, Any]], None],
        on_fault: Callable[[str], None],
    ) -> None:
        self._channel = channel
        self._name = name
        self._pace = pace
        self._on_event = on_event
        self._on_fault = on_fault
        self._pending: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sending = asyncio.Lock()
        self._last_id = 0
        self._last_seq = 0
        self._bad_lines = 0
        self._ended = ""

    async def greet(self) -> Mapping[str, Any]:
        """Return the agent's hello, passing over what the login prints before it.

        Raises:
            LinkRefused: no agent can come up here, or one of another version did.
            LinkError: none came up in time, or the link broke.
        """
        said = bytearray()
        try:
            async with asyncio.timeout(self._pace.hello_s):
                await self._channel.drain()
                hello = await self._first_message(said)
        except TimeoutError:
            words = last_words(said.decode("utf-8", "replace"))
            ending = f"; it said “{words}”" if words else ""
            raise LinkError(
                f"The agent on {self._name} did not start within {self._pace.hello_s:g} s{ending}"
            ) from None
        if hello is None:
            raise await self._channel.explain(said.decode("utf-8", "replace"), started=False)
        if hello.get("version") != protocol.VERSION:
            raise LinkRefused(
                f"The agent on {self._name} speaks version {hello.get('version')} of the protocol and this console "
                f"version {protocol.VERSION}; install eagle3-console again, so that its parts fit together"
            )
        self._last_seq = _seq(hello)
        return hello

    async def _first_message(self, said: bytearray) -> dict[str, Any] | None:
        while line := await self._channel.readline():
            hello = find_hello(line)
            if hello is not None:
                return hello
            said += line
            if len(said) > NOISE_BYTES:
                words = last_words(said.decode("utf-8", "replace"))
                raise LinkRefused(
                    f"The login on {self._name} prints without end before the agent starts: “{words}”; "
                    "let its shell's start-up files print nothing when there is no terminal"
                )
        return None

    async def pump(self) -> NoReturn:
        """Take in events and answers until the link is lost.

        Raises:
            LinkError: always, with the reason.
        """
        while line := await self._channel.readline():
            try:
                self._take(protocol.decode(line))
            except ProtocolError as error:
                self._bad_lines += 1
                self._on_fault(f"skipped {error}")
                if self._bad_lines > BAD_LINES:
                    raise LinkError(f"{self._name} sent {self._bad_lines} lines that are no messages") from None
        # Now, because the explanation may take a while.
        self.end(f"The connection to {self._name} broke")
        raise await self._channel.explain("", started=True)

    def _take(self, message: dict[str, Any]) -> None:
        seq = _seq(message)
        if seq != self._last_seq + 1:
            self._on_fault(f"line {seq} came after line {self._last_seq}")
            raise LinkError(f"A line from {self._name} was lost: number {seq} came after {self._last_seq}")
        self._last_seq = seq
        if "ev" in message:
            self._on_event(message)
            return
        waiting = self._pending.get(message.get("id", 0))
        if waiting is None or waiting.done():
            # The answer to a request whose deadline has passed.
            return
        error = message.get("error")
        if isinstance(error, dict):
            waiting.set_exception(RequestError(str(error.get("kind", "")), str(error.get("text", ""))))
        else:
            answer = message.get("ok")
            waiting.set_result(answer if isinstance(answer, dict) else {})

    async def request(self, op: str, *, deadline_s: float, **arguments: Any) -> dict[str, Any]:
        """Send a request once and return its answer; see :meth:`console.host.link.HostLink.request`."""
        self._last_id += 1
        number = self._last_id
        line = protocol.encode({**arguments, "id": number, "op": op})
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        sent = False
        try:
            async with asyncio.timeout(deadline_s):
                # One at a time: whoever waits here has not been sent, and says so.
                async with self._sending:
                    if self._ended:
                        raise LinkError(f"`{op}` was not sent: {self._ended}")
                    self._pending[number] = answer
                    self._channel.write(line)
                    sent = True
                    await self._channel.drain()
                return await answer
        except TimeoutError:
            if not sent:
                raise LinkError(f"`{op}` was not sent: {self._name} took nothing for {deadline_s:g} s") from None
            raise LinkError(
                f"{self._name} did not answer `{op}` within {deadline_s:g} s; whether it was carried out is not known"
            ) from None
        finally:
            self._pending.pop(number, None)

    async def watch(self, on_rtt: Callable[[float], None]) -> NoReturn:
        """Measure the round trip by ``ping``, and tell ``on_rtt`` the median of the last ones in milliseconds.

        Counts missed pings and not seconds: after this machine slept, nothing is wrong with the link yet.

        Raises:
            LinkError: the host does not answer any more.
        """
        rtts: deque[float] = deque(maxlen=RTT_SAMPLES)
        in_silence = at_all = 0
        while True:
            began = time.monotonic()
            try:
                await self.request(protocol.PING, deadline_s=self._pace.ping_deadline_s)
            except LinkError:
                at_all += 1
                in_silence = in_silence + 1 if self._channel.received_at < began else 0
            else:
                in_silence = at_all = 0
                rtts.append((time.monotonic() - began) * 1000.0)
                on_rtt(statistics.median(rtts))
            if in_silence >= self._pace.missed_in_silence or at_all >= self._pace.missed_at_all:
                raise LinkError(f"{self._name} does not answer any more")
            await asyncio.sleep(self._pace.ping_every_s)

    def end(self, reason: str) -> None:
        """Fail every request in flight: whether the agent carried it out is not known."""
        self._ended = reason
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(LinkError(f"{reason}; whether the request was carried out is not known"))


def find_hello(line: bytes) -> dict[str, Any] | None:
    """Return the hello in ``line``, also behind text that was printed without a newline; None when there is none."""
    start = line.find(b"{")
    while start >= 0:
        try:
            message = protocol.decode(line[start:])
        except ProtocolError:
            start = line.find(b"{", start + 1)
            continue
        return message if message.get("ev") == protocol.HELLO else None
    return None


def _seq(message: Mapping[str, Any]) -> int:
    seq = message.get("seq")
    if not isinstance(seq, int) or isinstance(seq, bool):
        raise ProtocolError(f"a message without a line number: {str(message)[:80]}")
    return seq
