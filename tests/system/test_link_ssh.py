"""A link over a real sshd: requests, losses of every kind, reconnects."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from console.host import link as links
from console.host.backoff import Backoff
from console.host.bootstrap import build_bundle
from console.host.connect import HostSpec, make_link
from console.host.errors import LinkError, LinkRefused
from console.host.link import HostLink, LinkStatus
from console.host.session import Pace
from console.host.ssh import SshChannel, open_ssh, parse_target
from tests.system.operator import SMALL, Operator, until
from tests.system.sshd import SshdServer
from tests.system.tcp_proxy import TcpProxy

PATIENT = Pace(hello_s=60.0, start_s=60.0, ping_every_s=0.05, ping_deadline_s=30.0)
SOON = Backoff(first_s=0.01, most_s=0.1)
UP_S = 60.0


@pytest.fixture
def known(sshd: SshdServer, client_home: Path) -> SshdServer:
    (client_home / ".ssh/known_hosts").write_text(sshd.known_hosts_line)
    return sshd


def opener(sshd: SshdServer, *, port: int | None = None) -> Callable[[], Coroutine[None, None, SshChannel]]:
    bundle = build_bundle(SMALL)

    async def open_channel() -> SshChannel:
        return await open_ssh(
            parse_target(f"{sshd.user}@127.0.0.1:{port or sshd.port}"),
            bundle,
            Operator(accept=True),
            python=sys.executable,
            identity_files=[sshd.client_key_path],
            deadline_s=60.0,
        )

    return open_channel


@asynccontextmanager
async def running(link: HostLink) -> AsyncIterator[list[LinkStatus]]:
    """Run ``link`` until it is up; yields the statuses that it goes through."""
    statuses: list[LinkStatus] = []
    link.on_status(statuses.append)
    task = asyncio.create_task(link.run())
    try:
        yield statuses
    finally:
        await link.close()
        await task
        assert link.status.phase == links.CLOSED


async def test_an_agent_over_ssh_answers_and_ends_with_the_link(known: SshdServer) -> None:
    link = HostLink(opener(known), start={"interval_s": 0.5}, name="gpu1", pace=PATIENT)
    async with running(link):
        await link.wait_up(UP_S)
        assert link.state.hello is not None and link.state.hello.hostname == "small"
        answer = await link.request("echo", deadline_s=UP_S, text="ü\udcff\n")
        assert answer["echo"]["text"] == "ü\udcff\n"
        where = await link.request("where", deadline_s=UP_S)
        assert where["ssh"].startswith("127.0.0.1 ")
        assert where["home"] == str(known.home)
        await until(lambda: link.status.rtt_ms is not None, "a round trip is measured")
        assert known.sessions()
    await until(lambda: not known.sessions(), "the session ends with the link")


async def test_a_cut_fails_the_request_in_flight_at_once_and_is_not_sent_again(
    known: SshdServer, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    link = HostLink(opener(known), start={}, name="gpu1", pace=PATIENT, backoff=SOON)
    async with running(link) as statuses:
        await link.wait_up(UP_S)
        request = asyncio.create_task(link.request("silence", deadline_s=3600.0, path=str(marks)))
        await until(marks.exists, "the agent has the request")
        known.cut()
        with pytest.raises(LinkError, match="whether the request was carried out is not known"):
            await asyncio.wait_for(request, UP_S)
        await until(lambda: any(s.phase == links.WAITING for s in statuses), "the loss is noticed")
        await link.wait_up(UP_S)
        assert (await link.request("echo", deadline_s=UP_S))["echo"]["op"] == "echo"
        assert marks.read_text() == "asked\n", "the request went out once"
    waiting = next(s for s in statuses if s.phase == links.WAITING)
    assert "gpu1" in waiting.text or "127.0.0.1" in waiting.text
    assert waiting.retry_in_s is not None


async def test_a_request_while_the_link_is_down_says_that_it_was_not_sent(known: SshdServer) -> None:
    link = HostLink(opener(known), start={}, name="gpu1", pace=PATIENT, backoff=SOON)
    async with running(link):
        await link.wait_up(UP_S)
        known.stop()
        await until(lambda: link.status.phase == links.WAITING, "the loss is noticed")
        with pytest.raises(LinkError, match="`signal` was not sent"):
            await link.request("signal", deadline_s=UP_S)
        with pytest.raises(LinkError, match="not connected within"):
            await link.wait_up(0.2)
        known.start()
        await link.wait_up(UP_S)


async def test_a_network_that_swallows_everything_is_noticed(known: SshdServer) -> None:
    pace = Pace(hello_s=60.0, start_s=60.0, ping_every_s=0.05, ping_deadline_s=1.0)
    async with TcpProxy(known.port) as proxy:
        link = HostLink(opener(known, port=proxy.port), start={}, name="gpu1", pace=pace, backoff=SOON)
        async with running(link) as statuses:
            await link.wait_up(UP_S)
            proxy.freeze()
            await until(lambda: link.status.phase == links.WAITING, "silence is a loss")
            assert statuses[-1].text == "gpu1 does not answer any more"
            proxy.thaw()
            await link.wait_up(UP_S)


async def test_a_changed_host_key_at_a_reconnect_stops_the_link_until_retry(
    known: SshdServer, client_home: Path
) -> None:
    link = HostLink(opener(known), start={}, name="gpu1", pace=PATIENT, backoff=SOON)
    async with running(link):
        await link.wait_up(UP_S)
        known.rotate_host_key()
        await until(lambda: link.status.phase == links.REFUSED, "the changed key is refused")
        with pytest.raises(LinkRefused, match="has changed"):
            await link.wait_up(UP_S)
        (client_home / ".ssh/known_hosts").write_text(known.known_hosts_line)
        link.retry()
        await until(lambda: link.status.phase == links.UP, "retry connects again")


async def test_an_agent_that_ends_is_reported_with_its_last_words(known: SshdServer) -> None:
    link = HostLink(opener(known), start={}, name="gpu1", pace=PATIENT, backoff=SOON)
    async with running(link) as statuses:
        await link.wait_up(UP_S)
        with pytest.raises(LinkError):
            await link.request("die", deadline_s=UP_S)
        await until(lambda: any(s.phase == links.WAITING for s in statuses), "the loss is noticed")
        await link.wait_up(UP_S)
    text = next(s.text for s in statuses if s.phase == links.WAITING)
    assert "exit status 9" in text
    assert "the last words" in text


async def test_the_real_agent_lists_this_machine_over_ssh(known: SshdServer) -> None:
    spec = HostSpec(
        name="gpu1",
        address=known.address,
        python=sys.executable,
        identity_files=(known.client_key_path,),
        interval_s=0.2,
        connect_deadline_s=60.0,
    )
    link = make_link(spec, Operator())
    names: list[str] = []

    def on_event(event: Mapping[str, object]) -> None:
        names.append(str(event["ev"]))

    link.listen(on_event)
    async with running(link):
        await link.wait_up(UP_S)
        await until(lambda: link.state.complete, "the whole list has arrived")
        assert link.data_age_s() < UP_S
        hello = link.state.hello
        assert hello is not None
        agent = link.state.processes[hello.pid]
        assert agent.ours
        assert agent.argv[1:3] == ("-u", "-c")
        assert "eagle3-console agent" in agent.argv[3]
        assert hello.audit_path.startswith(str(known.home))
    assert "procs" in names
