"""A link to this machine: the same agent as a child process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from console.host import link as links
from console.host.bootstrap import build_bundle
from console.host.connect import HostSpec, make_link
from console.host.errors import LinkError, LinkRefused
from console.host.local import open_local
from console.host.prompts import NoPrompts
from tests.system.operator import SMALL, until

UP_S = 60.0
pytestmark = pytest.mark.usefixtures("client_home")


async def test_the_real_agent_runs_here_and_ends_with_the_link() -> None:
    link = make_link(HostSpec("here", interval_s=0.2), NoPrompts())
    task = asyncio.create_task(link.run())
    await link.wait_up(UP_S)
    await until(lambda: link.state.complete, "the whole list has arrived")
    hello = link.state.hello
    assert hello is not None
    assert link.state.processes[os.getpid()].ours, "this console is never a target"
    assert link.state.processes[hello.pid].ours
    assert link.state.processes[hello.pid].ppid == os.getpid()
    await link.close()
    await task
    assert not psutil.pid_exists(hello.pid)


async def test_a_killed_agent_is_named_by_its_signal_and_replaced() -> None:
    link = make_link(HostSpec("here"), NoPrompts(), extra_modules=SMALL)
    statuses: list[links.LinkStatus] = []
    link.on_status(statuses.append)
    task = asyncio.create_task(link.run())
    await link.wait_up(UP_S)
    first = link.state.hello
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    await until(lambda: any(s.phase == links.WAITING for s in statuses), "the loss is noticed")
    await link.wait_up(UP_S)
    assert link.state.hello is not None
    assert link.state.hello.pid != first.pid
    await link.close()
    await task
    assert next(s.text for s in statuses if s.phase == links.WAITING).endswith("was ended by SIGKILL")


@pytest.mark.parametrize(("python", "words"), [("/nonexistent/python", "was not found"), ("/etc", "permission denied")])
async def test_a_python_that_cannot_be_run_is_refused(python: str, words: str) -> None:
    with pytest.raises(LinkRefused, match=words):
        await open_local(python, build_bundle(SMALL))


async def test_a_program_that_reads_nothing_is_no_deadlock(tmp_path: Path) -> None:
    mute = tmp_path / "python"
    mute.write_text("#!/bin/sh\nexec 0<&-\necho 'gone fishing' >&2\nexit 4\n")
    mute.chmod(0o755)
    channel = await open_local(str(mute), build_bundle(SMALL) * 20)
    async with asyncio.timeout(60):
        await channel.drain()
        assert await channel.readline() == b""
        error = await channel.explain("", started=False)
        await channel.close()
    assert isinstance(error, LinkError)
    assert "exit status 4" in str(error)
    assert "gone fishing" in str(error)


async def test_lines_larger_than_any_buffer_arrive_whole() -> None:
    flood = (
        "import sys\ndef main():\n    print('x' * 5_000_000, flush=True)\n"
        "    print('e' * 300_000, file=sys.stderr, flush=True)\n    print('the end')\n"
    )
    channel = await open_local(sys.executable, build_bundle({"console.agent.main": flood}))
    async with asyncio.timeout(60):
        assert len(await channel.readline()) == 5_000_001
        assert await channel.readline() == b"the end\n"
        await channel.close()


async def test_an_agent_that_ignores_the_end_of_its_input_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.host.local.LAST_WORDS_PATIENCE_S", 0.05)
    monkeypatch.setattr("console.host.local.END_PATIENCE_S", 0.05)
    deaf = (
        "import os, signal, time\ndef main():\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    print(os.getpid(), flush=True)\n    time.sleep(3600)\n"
    )
    channel = await open_local(sys.executable, build_bundle({"console.agent.main": deaf}))
    async with asyncio.timeout(60):
        pid = int(await channel.readline())
        await channel.close()
        await until(lambda: not psutil.pid_exists(pid), "the agent is gone")
    assert not psutil.pid_exists(pid)
