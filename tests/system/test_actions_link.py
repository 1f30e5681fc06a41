"""A link that breaks in the middle of an action: what became of it is read on the host, and nothing is sent twice."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

from console.agent.auditfile import AuditFile
from console.host.action_run import ActionRun
from console.host.actions import fate_of
from tests.system.agent_link import PATIENT, link_over_ssh, plan_for, up
from tests.system.jobs import Jobs, ended, said, wait_for
from tests.system.operator import until
from tests.system.sshd import SshdServer
from tests.system.tcp_proxy import TcpProxy

COUNTING = """
import os, signal, sys
told = os.open(sys.argv[1], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
signal.signal(signal.SIGTERM, lambda *_: os.write(told, b"TERM\\n"))
print("on", flush=True)
while True:
    signal.pause()
"""


def records(sshd: SshdServer) -> list[dict[str, object]]:
    return AuditFile(str(sshd.home / ".local/state/eagle3-console/audit.jsonl")).tail(100)[0]


async def test_a_cut_link_finds_the_result_and_sends_once(
    sshd: SshdServer, client_home: Path, jobs: Jobs, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    job = jobs.python(COUNTING, told, start_new_session=True)
    assert said(job) == "on"
    async with up(link_over_ssh(sshd)) as link:
        run = ActionRun(link, await plan_for(link, "stop", job.pid, grace_s=60.0), retry_s=0.01)
        acting = asyncio.create_task(run.run())
        await until(lambda: told.exists() and told.read_text(), "the TERM has arrived")
        await until(lambda: run.outcome.phase == "waiting", "the console knows")
        first_agent = link.state.hello.pid if link.state.hello else 0
        await asyncio.to_thread(sshd.cut)
        await acting
        assert link.state.hello is not None
        assert link.state.hello.pid != first_agent
    # The agent's last words: it had sent the TERM and the process was still there.
    assert (run.outcome.phase, run.outcome.ok) == ("done", False)
    assert run.outcome.targets[0].sent == "SIGTERM"
    assert "when the console went away" in run.outcome.targets[0].reason
    assert told.read_text() == "TERM\n"
    assert [r["record"] for r in records(sshd)] == ["intent", "result"]


async def test_an_agent_that_dies_leaves_an_intent(
    sshd: SshdServer, client_home: Path, jobs: Jobs, tmp_path: Path
) -> None:
    job = jobs.python(COUNTING, tmp_path / "told", start_new_session=True)
    assert said(job) == "on"
    async with up(link_over_ssh(sshd)) as link:
        run = ActionRun(link, await plan_for(link, "stop", job.pid, grace_s=60.0), retry_s=0.01)
        acting = asyncio.create_task(run.run())
        await until(lambda: run.outcome.phase == "waiting", "it waits")
        assert link.state.hello is not None
        os.kill(link.state.hello.pid, signal.SIGKILL)
        await acting
    assert (run.outcome.phase, run.outcome.ok, run.never_sent) == ("unknown", False, False)
    assert (tmp_path / "told").read_text() == "TERM\n"
    assert [r["record"] for r in records(sshd)] == ["intent"]


async def test_a_request_that_the_network_swallowed_was_never_sent(
    sshd: SshdServer, client_home: Path, jobs: Jobs
) -> None:
    job = jobs.sleeper(start_new_session=True)
    async with TcpProxy(sshd.port) as proxy, up(link_over_ssh(sshd, port=proxy.port)) as link:
        plan = await plan_for(link, "kill", job.pid)
        proxy.freeze()
        run = ActionRun(link, plan, retry_s=0.01)
        acting = asyncio.create_task(run.run())
        await asyncio.to_thread(sshd.cut)
        proxy.thaw()
        await acting
    if run.never_sent:
        assert job.poll() is None
        assert records(sshd) == []
    else:
        # The first bytes got through before the freeze: then the host knows what it did.
        assert run.outcome.targets[0].pid == job.pid
        wait_for(lambda: ended(job.pid), "it was killed")


async def test_what_happened_behind_a_silent_network_is_told_later(
    sshd: SshdServer, client_home: Path, jobs: Jobs, tmp_path: Path
) -> None:
    """The network swallows everything while the host goes on: the job ends, and the old agent writes that down."""
    told = tmp_path / "told"
    job = jobs.python(COUNTING, told, start_new_session=True)
    assert said(job) == "on"
    async with TcpProxy(sshd.port) as proxy:
        pace = replace(PATIENT, ping_every_s=0.05, ping_deadline_s=1.0)
        async with up(link_over_ssh(sshd, port=proxy.port, pace=pace)) as link:
            run = ActionRun(link, await plan_for(link, "stop", job.pid, grace_s=60.0), retry_s=0.01)
            acting = asyncio.create_task(run.run())
            await until(lambda: run.outcome.phase == "waiting" and told.read_text(), "the TERM has arrived")
            proxy.freeze()
            job.kill()
            job.wait()
            await until(lambda: len(records(sshd)) == 2, "the agent has written the result")
            await until(lambda: run.trouble, "the console notices the silence")
            assert not run.finished
            proxy.thaw()
            await acting
    assert (run.outcome.phase, run.outcome.ok, run.trouble) == ("done", True, "")
    assert [(t.pid, t.sent, t.state_after) for t in run.outcome.targets] == [(job.pid, "SIGTERM", "gone")]
    assert told.read_text() == "TERM\n"


async def test_the_fate_of_what_never_was(sshd: SshdServer, client_home: Path) -> None:
    async with up(link_over_ssh(sshd)) as link:
        assert await fate_of(link, "0123456789abcdef") is None
