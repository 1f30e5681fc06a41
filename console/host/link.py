"""HostLink: one host, kept connected: its state, its status, and requests to it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from console.agent import protocol
from console.agent.protocol import ProtocolError
from console.host.backoff import Backoff
from console.host.channel import Channel
from console.host.errors import LinkError, LinkRefused, RequestError
from console.host.listeners import Listeners
from console.host.session import Pace, Session
from console.host.state import HostState, fold

CONNECTING, UP, WAITING, REFUSED, CLOSED = "connecting", "up", "waiting", "refused", "closed"


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """Where a link stands. ``phase``: connecting, up, waiting, refused or closed; ``text`` says why."""

    phase: str
    text: str = ""
    attempt: int = 0
    """Attempts in a row that failed or are under way; 0 while the link is up."""
    retry_in_s: float | None = None
    """How far away the next attempt was when this phase began."""
    rtt_ms: float | None = None
    """Median of the last answers to ``ping``."""
    since: float = 0.0
    """Local monotonic seconds when this phase began."""


class HostLink:
    """The link to one host.

    ``open_channel`` starts an agent and is called for every attempt. ``start`` are the arguments of the first request.
    ``asking`` tells whether a question to the operator is open, which stops the clock of :meth:`wait_up`.
    """

    def __init__(
        self,
        open_channel: Callable[[], Awaitable[Channel]],
        *,
        start: Mapping[str, Any],
        name: str,
        asking: Callable[[], bool] = lambda: False,
        backoff: Backoff | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.name = name
        self.state = HostState()
        self._open_channel = open_channel
        self._start = dict(start)
        self._asking = asking
        self._backoff = backoff or Backoff()
        self._pace = pace or Pace()
        self._status = LinkStatus(CONNECTING, f"Connecting to {name}", since=time.monotonic())
        self._failures = 0
        self._up_s = 0.0
        self._session: Session | None = None
        self._procs_at: float | None = None
        self._events: Listeners[Mapping[str, Any]] = Listeners(self._on_callback_error)
        self._statuses: Listeners[LinkStatus] = Listeners(self._on_callback_error)
        self._retry = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._closing = False

    @property
    def status(self) -> LinkStatus:
        """Where the link stands now."""
        return self._status

    def data_age_s(self) -> float:
        """Return the seconds since the last ``procs`` event arrived, by the local clock; inf if none ever did."""
        return float("inf") if self._procs_at is None else time.monotonic() - self._procs_at

    def listen(self, callback: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Call ``callback`` for every later event, once it is folded; return a function that ends it."""
        return self._events.add(callback)

    def on_status(self, callback: Callable[[LinkStatus], None]) -> Callable[[], None]:
        """Call ``callback`` for every later status; return a function that ends it."""
        return self._statuses.add(callback)

    def retry(self) -> None:
        """Connect again now, whether the link was refused or is waiting."""
        self._retry.set()

    async def request(self, op: str, *, deadline_s: float, **arguments: Any) -> dict[str, Any]:
        """Send a request once, never again, and return its answer.

        Raises:
            RequestError: the agent answered with an error.
            LinkError: the link is down, broke, or ``deadline_s`` passed. The text says whether the request was surely
                not sent, or whether it is not known what became of it.
        """
        if self._session is None:
            raise LinkError(f"`{op}` was not sent: {self._status.text}")
        return await self._session.request(op, deadline_s=deadline_s, **arguments)

    async def wait_up(self, deadline_s: float, *, patient: bool = True) -> None:
        """Return once the link is up. ``patient`` False gives up at the first failure; open questions stop the clock.

        Raises:
            LinkRefused: it will not come up by itself; the text says why.
            LinkError: it did not come up in time; the text says why.
        """
        changed = asyncio.Event()
        remove = self.on_status(lambda status: changed.set())
        left_s = deadline_s
        try:
            while not self._is_up(patient):
                if left_s <= 0:
                    reason = f": {self._status.text}" if self._status.phase == WAITING else ""
                    raise LinkError(f"{self.name} was not connected within {deadline_s:g} s{reason}")
                began = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left_s, 0.25)):
                        await changed.wait()
                changed.clear()
                left_s -= 0.0 if self._asking() else time.monotonic() - began
        finally:
            remove()

    def _is_up(self, patient: bool) -> bool:
        phase, text = self._status.phase, self._status.text
        if phase == REFUSED:
            raise LinkRefused(text)
        if phase == CLOSED or (phase == WAITING and not patient):
            raise LinkError(text)
        return phase == UP

    async def run(self) -> None:
        """Keep the link up until :meth:`close`, or until this task is cancelled."""
        self._task = asyncio.current_task()
        try:
            while True:
                await self._attempt()
        except asyncio.CancelledError:
            if not self._closing:
                raise
        finally:
            self._task = None
            self._set_status(CLOSED, f"The link to {self.name} is closed")

    async def close(self) -> None:
        """End the link and its agent; :meth:`run` returns."""
        self._closing = True
        if self._task is None:
            self._set_status(CLOSED, f"The link to {self.name} is closed")
        elif self._task is not asyncio.current_task():
            task = self._task
            task.cancel()
            await asyncio.wait([task])

    async def _attempt(self) -> None:
        """Connect and converse until the link is lost; then wait as the reason asks for."""
        self._retry.clear()
        self._up_s = 0.0
        self._set_status(CONNECTING, f"Connecting to {self.name}", attempt=self._failures + 1)
        channel: Channel | None = None
        try:
            channel = await self._open_channel()
            await self._converse(channel)
        except LinkRefused as error:
            self._failures = 0
            delay_s = None
            self._set_status(REFUSED, str(error))
        except LinkError as error:
            self._failures = self._backoff.failures_after(self._failures, self._up_s)
            delay_s = self._backoff.delay_s(self._failures, random.random())
            self._set_status(WAITING, str(error), attempt=self._failures, retry_in_s=delay_s)
        finally:
            if channel is not None:
                await channel.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._retry.wait()

    async def _converse(self, channel: Channel) -> NoReturn:
        """Hold one conversation; raise why it ended."""
        session = Session(channel, self.name, self._pace, self._on_event, lambda text: self._fault("link", text))
        try:
            self._on_event(await session.greet())
        except ProtocolError as error:
            raise LinkRefused(f"The hello of {self.name} cannot be read: {error}") from None
        tasks = [asyncio.create_task(session.pump()), asyncio.create_task(self._begin_and_watch(session))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._session = None
            if self._status.phase == UP:
                self._up_s = time.monotonic() - self._status.since
            session.end(f"The connection to {self.name} broke")
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        raise next(end for end in ends if isinstance(end, Exception))

    async def _begin_and_watch(self, session: Session) -> NoReturn:
        try:
            await session.request(protocol.START, deadline_s=self._pace.start_s, **self._start)
        except RequestError as error:
            raise LinkRefused(f"The agent on {self.name} cannot begin: {error}") from None
        self._session = session
        self._set_status(UP, f"Connected to {self.name}")
        await session.watch(self._on_rtt)

    def _on_event(self, event: Mapping[str, Any]) -> None:
        """Fold an event and pass it on. Raises ProtocolError when it is not what its name says."""
        try:
            self.state = fold(self.state, event)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"an event `{event.get('ev')}` that cannot be read: {error!r}") from None
        if event.get("ev") == protocol.PROCS:
            self._procs_at = time.monotonic()
        self._events.call(event)

    def _on_rtt(self, rtt_ms: float) -> None:
        if self._status.phase == UP:
            self._announce(replace(self._status, rtt_ms=rtt_ms))

    def _on_callback_error(self, error: Exception) -> None:
        self._fault("console", f"a display failed: {error!r}")

    def _fault(self, part: str, text: str) -> None:
        self.state = fold(self.state, {"ev": protocol.FAULT, "part": part, "text": text})

    def _set_status(self, phase: str, text: str, *, attempt: int = 0, retry_in_s: float | None = None) -> None:
        if (phase, text) != (self._status.phase, self._status.text) or attempt != self._status.attempt:
            self._announce(LinkStatus(phase, text, attempt, retry_in_s, None, time.monotonic()))

    def _announce(self, status: LinkStatus) -> None:
        self._status = status
        self._statuses.call(status)
