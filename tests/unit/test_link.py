"""HostLink: phases, requests and their fates, faults, listeners."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from console.host import link as links
from console.host.backoff import Backoff
from console.host.errors import LinkError, LinkRefused, RequestError
from console.host.link import HostLink, LinkStatus
from console.host.session import Pace
from tests.unit.fake_channel import FakeChannel

PACE = Pace(hello_s=60.0, start_s=60.0, ping_every_s=3600.0, ping_deadline_s=60.0)
SOON = Backoff(first_s=0.001, most_s=0.001)
UP_S = 60.0


class Host:
    """Hands out the channels of a test in order; ``link`` is the link to them."""

    def __init__(self, *channels: FakeChannel | Exception, pace: Pace = PACE, backoff: Backoff = SOON) -> None:
        self.attempts = 0
        self._channels = list(channels)
        self.link = HostLink(self._open, start={"interval_s": 1.0}, name="gpu1", pace=pace, backoff=backoff)
        self.statuses: list[LinkStatus] = []
        self.link.on_status(self.statuses.append)

    @property
    def phases(self) -> list[str]:
        return [status.phase for status in self.statuses]

    async def _open(self) -> FakeChannel:
        self.attempts += 1
        if not self._channels:
            await asyncio.Event().wait()
        channel = self._channels.pop(0)
        if isinstance(channel, Exception):
            raise channel
        return channel

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HostLink]:
        task = asyncio.create_task(self.link.run())
        try:
            yield self.link
        finally:
            await self.link.close()
            await task


async def up(host: Host, channel: FakeChannel) -> None:
    """Bring ``host`` up over ``channel``."""
    channel.hello()
    await channel.answer("start")
    await host.link.wait_up(UP_S)
    await channel.answer("ping")


async def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + UP_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def test_a_link_comes_up_with_hello_and_start() -> None:
    channel = FakeChannel()
    host = Host(channel)
    async with host.running() as link:
        channel.raw(b"Welcome!\n")
        channel.hello(hostname="gpu1.corp")
        request = await channel.answer("start")
        await link.wait_up(UP_S)
        assert request == {"id": 1, "op": "start", "interval_s": 1.0}
        assert link.state.hello is not None and link.state.hello.hostname == "gpu1.corp"
        assert link.data_age_s() == float("inf")
        await channel.answer("ping")
        await until(lambda: link.status.rtt_ms is not None)
    assert host.phases == [links.CONNECTING, links.UP, links.UP, links.CLOSED]
    assert channel.closed


async def test_answers_find_their_requests_in_any_order() -> None:
    channel = FakeChannel()
    host = Host(channel)
    async with host.running() as link:
        await up(host, channel)
        first = asyncio.create_task(link.request("a", deadline_s=UP_S, x=1))
        second = asyncio.create_task(link.request("b", deadline_s=UP_S))
        one, two = await channel.request("a"), await channel.request("b")
        assert one["x"] == 1
        channel.say(id=two["id"], ok={"is": "b"})
        channel.say(id=one["id"], error={"kind": "refused", "text": "no"})
        assert await second == {"is": "b"}
        with pytest.raises(RequestError, match="no") as refused:
            await first
        assert refused.value.kind == "refused"


async def test_a_late_answer_is_dropped_and_the_link_goes_on() -> None:
    channel = FakeChannel()
    host = Host(channel)
    async with host.running() as link:
        await up(host, channel)
        with pytest.raises(
            LinkError, match=r"did not answer `a` within 0\.01 s; whether it was carried out is not known"
        ):
            await link.request("a", deadline_s=0.01)
        late = await channel.request("a")
        channel.say(id=late["id"], ok={})
        task = asyncio.create_task(link.request("b", deadline_s=UP_S))
        await channel.answer("b", ok={"fine": 1})
        assert await task == {"fine": 1}
        assert link.state.faults == {}


async def test_a_request_behind_a_full_channel_says_that_it_was_not_sent() -> None:
    channel = FakeChannel()
    host = Host(channel)
    async with host.running() as link:
        await up(host, channel)
        channel.flowing.clear()
        first = asyncio.create_task(link.request("a", deadline_s=UP_S))
        await channel.request("a")
        with pytest.raises(LinkError, match="`b` was not sent: gpu1 took nothing"):
            await link.request("b", deadline_s=0.01)
        channel.flowing.set()
        assert not any(request["op"] == "b" for request in channel.written)
        first.cancel()


async def test_a_loss_fails_what_is_in_flight_before_it_is_explained() -> None:
    channel, second = FakeChannel(), FakeChannel()
    host = Host(channel, second)
    async with host.running() as link:
        await up(host, channel)
        request = asyncio.create_task(link.request("signal", deadline_s=3600.0))
        await channel.request("signal")
        channel.may_explain.clear()
        channel.raw(b"")
        with pytest.raises(LinkError, match="whether the request was carried out is not known"):
            await asyncio.wait_for(request, UP_S)
        channel.may_explain.set()
        await up(host, second)
        assert channel.explained == [("", True)]
        assert channel.closed
        assert not any(sent["op"] == "signal" for sent in second.written), "a request is never sent again"
    waiting = next(status for status in host.statuses if status.phase == links.WAITING)
    assert waiting.text == "the fake broke"
    assert waiting.retry_in_s is not None


async def test_a_reconnect_starts_from_an_empty_state() -> None:
    channel, second = FakeChannel(), FakeChannel()
    host = Host(channel, second)
    async with host.running() as link:
        await up(host, channel)
        channel.say(ev="procs", reset=True, complete=True, uptime_s=5.0)
        await until(lambda: link.state.complete)
        assert link.data_age_s() < 60.0
        channel.raw(b"")
        await up(host, second)
        assert not link.state.complete
        assert link.state.uptime_s == 0.0


async def test_a_gap_in_the_numbers_is_a_fault_and_a_loss() -> None:
    channel, second = FakeChannel(), FakeChannel()
    host = Host(channel, second)
    async with host.running():
        await up(host, channel)
        channel.say(ev="procs", seq=99)
        await up(host, second)
    waiting = next(status for status in host.statuses if status.phase == links.WAITING)
    assert "A line from gpu1 was lost: number 99 came after 3" in waiting.text


async def test_a_few_bad_lines_are_faults_and_many_are_a_loss() -> None:
    channel, second = FakeChannel(), FakeChannel()
    host = Host(channel, second)
    async with host.running() as link:
        await up(host, channel)
        channel.raw(b"not json\n")
        channel.raw(b'{"no":"number"}\n')
        channel.say(ev="procs", added=[{"pid": 1}])
        channel.say(ev="gpus", gpus=7)
        channel.say(ev="gauges", cores=4)
        await until(lambda: link.state.gauges.cores == 4)
        assert "gpus" in link.state.faults["link"]
        assert link.status.phase == links.UP
        for _ in range(2):
            channel.raw(b"not json\n")
        await up(host, second)
    waiting = next(status for status in host.statuses if status.phase == links.WAITING)
    assert "6 lines that are no messages" in waiting.text


async def test_a_listener_that_fails_stops_neither_the_link_nor_the_others() -> None:
    channel = FakeChannel()
    host = Host(channel)
    seen: list[str] = []

    def fails(event: object) -> None:
        raise RuntimeError("widget gone")

    host.link.listen(fails)
    remove = host.link.listen(lambda event: seen.append(f"{event['ev']} {host.link.state.gauges.cores}"))
    async with host.running() as link:
        await up(host, channel)
        channel.say(ev="gauges", cores=3)
        await until(lambda: "gauges 3" in seen)
        assert "widget gone" in link.state.faults["console"]
        remove()
        remove()
        channel.say(ev="gauges", cores=5)
        await until(lambda: link.state.gauges.cores == 5)
        assert seen == ["hello None", "gauges 3"]


async def test_an_agent_of_another_version_is_refused_with_both_versions() -> None:
    channel = FakeChannel()
    host = Host(channel)
    channel.hello(version=7)
    async with host.running() as link:
        with pytest.raises(LinkRefused, match=r"speaks version 7 .* this console version 1"):
            await link.wait_up(UP_S)
    assert channel.closed


async def test_a_hello_that_cannot_be_read_is_refused() -> None:
    channel = FakeChannel()
    host = Host(channel)
    channel.say(ev="hello", version=1)
    async with host.running() as link:
        with pytest.raises(LinkRefused, match="hello of gpu1 cannot be read"):
            await link.wait_up(UP_S)


async def test_an_agent_that_cannot_begin_is_refused() -> None:
    channel = FakeChannel()
    host = Host(channel)
    async with host.running() as link:
        channel.hello()
        await channel.answer("start", error={"kind": "bad_request", "text": "no /proc"})
        with pytest.raises(LinkRefused, match="cannot begin: no /proc"):
            await link.wait_up(UP_S)


async def test_no_hello_in_time_is_a_loss_that_shows_what_was_said() -> None:
    channel = FakeChannel()
    host = Host(channel, pace=Pace(hello_s=0.05))
    channel.raw(b"Checking \x1b[1mquota\n")
    async with host.running() as link:
        with pytest.raises(LinkError, match=r"did not start within 0\.05 s; it said “Checking ␛\[1mquota”"):
            await link.wait_up(UP_S, patient=False)


async def test_a_refusal_waits_for_retry() -> None:
    channel = FakeChannel()
    host = Host(LinkRefused("the host key has changed"), LinkRefused("still changed"), channel)
    async with host.running() as link:
        with pytest.raises(LinkRefused, match="has changed"):
            await link.wait_up(UP_S)
        with pytest.raises(LinkError, match="`plan` was not sent: the host key has changed"):
            await link.request("plan", deadline_s=UP_S)
        for _ in range(50):
            await asyncio.sleep(0)
        assert host.attempts == 1
        link.retry()
        await until(lambda: link.status.text == "still changed")
        for _ in range(50):
            await asyncio.sleep(0)
        assert host.attempts == 2, "one retry is one attempt"
        link.retry()
        await up(host, channel)
    assert host.phases[:6] == [*[links.CONNECTING, links.REFUSED] * 2, links.CONNECTING, links.UP]


async def test_retry_cuts_a_wait_short() -> None:
    channel = FakeChannel()
    host = Host(LinkError("down"), channel, backoff=Backoff(first_s=1e6, most_s=1e6))
    async with host.running() as link:
        await until(lambda: link.status.phase == links.WAITING)
        link.retry()
        await up(host, channel)
    assert host.attempts == 2


async def test_attempts_are_counted_until_the_link_was_up_for_long() -> None:
    host = Host(*[LinkError(f"down {n}") for n in range(4)])
    async with host.running() as link:
        await until(lambda: host.attempts == 5)
        assert link.status.attempt == 5
    assert [(s.phase, s.attempt) for s in host.statuses[:4]] == [
        (links.CONNECTING, 1),
        (links.WAITING, 1),
        (links.CONNECTING, 2),
        (links.WAITING, 2),
    ]


async def test_wait_up_gives_the_reason_of_the_last_failure() -> None:
    host = Host(LinkError("no route"), backoff=Backoff(first_s=1e6, most_s=1e6))
    async with host.running() as link:
        with pytest.raises(LinkError, match=r"gpu1 was not connected within 0\.05 s: no route"):
            await link.wait_up(0.05)
        with pytest.raises(LinkError, match=r"^no route$"):
            await link.wait_up(UP_S, patient=False)


async def test_an_open_question_stops_the_clock_of_wait_up() -> None:
    asking = True
    channel = FakeChannel()

    async def open_channel() -> FakeChannel:
        await answered.wait()
        return channel

    answered = asyncio.Event()
    link = HostLink(open_channel, start={}, name="gpu1", pace=PACE, asking=lambda: asking)
    task = asyncio.create_task(link.run())
    waiting = asyncio.create_task(link.wait_up(0.02))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    asking = False
    with pytest.raises(LinkError, match="not connected within"):
        await waiting
    await link.close()
    await task


async def test_silence_is_a_loss_and_bytes_are_not_silence() -> None:
    pace = Pace(hello_s=60.0, start_s=60.0, ping_every_s=0.001, ping_deadline_s=0.02, missed_at_all=10**9)
    channel, second = FakeChannel(), FakeChannel()
    host = Host(channel, second, pace=pace)
    async with host.running() as link:
        channel.hello()
        await channel.answer("start")
        await link.wait_up(UP_S)
        for _ in range(40):
            channel.received_at = asyncio.get_running_loop().time() + 3600.0
            await asyncio.sleep(0.005)
        assert link.status.phase == links.UP, "a long line on a slow link is on its way"
        channel.received_at = 0.0
        await until(lambda: links.WAITING in host.phases)
    assert next(s.text for s in host.statuses if s.phase == links.WAITING) == "gpu1 does not answer any more"


async def test_close_before_run_and_twice_is_harmless() -> None:
    host = Host()
    await host.link.close()
    await host.link.close()
    assert host.link.status.phase == links.CLOSED
    with pytest.raises(LinkError, match="is closed"):
        await host.link.wait_up(UP_S)


async def test_a_cancelled_run_closes_the_channel_and_stays_cancelled() -> None:
    channel = FakeChannel()
    host = Host(channel)
    task = asyncio.create_task(host.link.run())
    await up(host, channel)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert channel.closed
    assert host.link.status.phase == links.CLOSED
