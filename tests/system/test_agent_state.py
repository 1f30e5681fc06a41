"""The real agent over a real link: what the console's state says is what the host does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from console.agent import protocol
from console.host.actions import carry_out, make_plan
from console.host.connect import HostSpec, make_link
from console.host.link import HostLink
from console.host.prompts import NoPrompts
from console.host.state import Process
from tests.system.operator import until
from tests.system.specimens import Specimens, key_of, stop, tell

pytestmark = pytest.mark.usefixtures("client_home")


ROOM = "a long argument that leaves room for titles"


@pytest.fixture
def specimens(tmp_path: Path) -> Iterator[Specimens]:
    made = Specimens(tmp_path)
    yield made
    made.end()


@contextlib.asynccontextmanager
async def linked(**start: object) -> AsyncIterator[HostLink]:
    link = make_link(HostSpec("here", interval_s=0.2), NoPrompts(), start=start)
    task = asyncio.create_task(link.run())
    try:
        await link.wait_up(60.0)
        await until(lambda: link.state.complete, "the whole list has arrived")
        yield link
    finally:
        await link.close()
        await asyncio.gather(task, return_exceptions=True)


async def shown(link: HostLink, pid: int) -> Process:
    """Return the process once the console has it, or the next figures of it."""
    key = key_of(pid)
    await until(lambda: pid in link.state.processes, f"{pid} is listed")
    process = link.state.processes[pid]
    assert (process.pid, process.start_ticks) == key
    return process


async def test_every_process_here_is_in_the_state(specimens: Specimens) -> None:
    odd = [specimens.sleeper(b"two\nlines", b"\xff", b"x" * 100_000), specimens.script(b"a) S 1 (b")]
    zombie = specimens.zombie()
    async with linked(argv_max=0) as link:
        for process in [*odd, psutil.Process(), psutil.Process().parent()]:
            assert process is not None
            found, oracle = await shown(link, process.pid), psutil.Process(process.pid)
            assert list(found.argv) == oracle.cmdline() or "••••" in "".join(found.argv)
            assert (found.ppid, found.uid, found.user) == (oracle.ppid(), oracle.uids().real, oracle.username())
            assert (found.pgid, found.session) == (os.getpgid(process.pid), os.getsid(process.pid))
            assert abs(found.started_at - oracle.create_time()) <= 1.5
            assert link.state.identity(found) == (link.state.hello.boot_id, *key_of(process.pid))  # type: ignore[union-attr]
        assert link.state.processes[odd[1].pid].comm == "a) S 1 (b"
        assert ((await shown(link, zombie.pid)).state, link.state.processes[zombie.pid].argv) == ("Z", ())
        assert link.state.processes.keys() >= set(psutil.pids()) & {os.getpid(), os.getppid()}


async def test_a_life_from_birth_to_end(specimens: Specimens) -> None:
    async with linked() as link:
        process = specimens.changer(ROOM)
        pid, key = process.pid, key_of(process.pid)
        first = await shown(link, pid)
        await until(lambda: link.state.processes[pid].argv[-1:] == (ROOM,), "argv")

        tell(process, "title sglang::scheduler")
        await until(lambda: link.state.processes[pid].argv[0] == "sglang::scheduler", "the title")
        tell(process, "comm rank) 0")
        await until(lambda: link.state.processes[pid].comm == "rank) 0", "the name")
        tell(process, "threads 7")
        await until(lambda: link.state.processes[pid].threads == 8, "the threads")
        tell(process, "setsid")
        await until(lambda: link.state.processes[pid].session == pid == link.state.processes[pid].pgid, "the session")
        stop(pid)
        await until(lambda: link.state.processes[pid].state == "T", "the stop")
        await until(lambda: link.state.pause_of(link.state.processes[pid]), "the pause")
        pause = link.state.pause_of(link.state.processes[pid])
        assert pause is not None and pause.by == "", "nobody of ours stopped it"
        os.kill(pid, signal.SIGCONT)
        await until(lambda: link.state.processes[pid].state == "S", "the wake-up")
        await until(lambda: pid not in link.state.pauses, "the end of the pause")
        assert link.state.alerts == (), "a shell's job control is no alarm"

        digest = link.state.processes[pid].argv_digest
        tell(process, "exec another-program", answers=False)
        await until(lambda: link.state.processes[pid].argv[-1] == "another-program", "the exec")
        assert (link.state.processes[pid].pid, link.state.processes[pid].start_ticks) == key
        assert link.state.processes[pid].argv_digest != digest != first.argv_digest

        process.kill()
        await until(lambda: link.state.processes[pid].state == "Z", "the zombie")
        process.wait()
        await until(lambda: pid not in link.state.processes, "the end")
        assert key not in {(p.pid, p.start_ticks) for p in link.state.processes.values()}


async def test_a_child_that_never_runs_gets_its_new_parent(specimens: Specimens) -> None:
    parent, child = specimens.forker()
    async with linked() as link:
        assert (await shown(link, child)).ppid == parent.pid
        # Long enough for the table to take the child for idle.
        since = link.state.t
        await until(lambda: link.state.t > since + 2.0, "some samples")
        parent.kill()
        parent.wait()
        adopter = psutil.Process(child).ppid()
        await until(lambda: link.state.processes[child].ppid == adopter, "the new parent")
        assert adopter != parent.pid


async def test_a_busy_process_shows_its_cpu(specimens: Specimens) -> None:
    process = specimens.start([sys.executable, "-c", "print(flush=True)\nwhile True: pass"])
    assert process.stdout and process.stdout.readline()
    async with linked() as link:
        figures: list[float] = []

        def take(event: object) -> None:
            cpu = link.state.processes[process.pid].cpu_percent if process.pid in link.state.processes else None
            if cpu is not None:
                figures.append(cpu)

        link.listen(take)
        oracle = psutil.Process(process.pid)
        used, since = sum(oracle.cpu_times()[:2]), link.state.t
        await until(lambda: link.state.t > since + 2.0, "two seconds of figures")
        percent = 100.0 * (sum(oracle.cpu_times()[:2]) - used) / (link.state.t - since)
        assert sum(figures) / len(figures) == pytest.approx(percent, rel=0.3, abs=20.0)
        assert max(figures) <= 130.0, "one thread has one core"


async def test_a_pause_of_ours_is_in_the_state_with_who_and_ends_there(specimens: Specimens) -> None:
    process = specimens.sleeper()
    async with linked(operator="ann@desk") as link:
        found = await shown(link, process.pid)
        for action in (protocol.PAUSE, protocol.RESUME) * 3:
            plan = await make_plan(link, action, [link.state.identity(found)])
            outcome = await carry_out(link, plan, lambda outcome: None)
            assert outcome.ok, outcome
            if action == protocol.PAUSE:
                await until(lambda: link.state.pauses.get(process.pid), "the pause")
                assert link.state.pauses[process.pid].by == "ann@desk"
            else:
                await until(lambda: process.pid not in link.state.pauses, "the end of the pause")
        assert link.state.alerts == ()


async def test_secrets_are_masked_before_they_leave_the_host(specimens: Specimens) -> None:
    lines: list[str] = []
    process = specimens.sleeper("--api-key", "QzV3rySecretValue", env={**os.environ, "HF_TOKEN": "QzV3rySecretValue"})
    async with linked() as link:
        link.listen(lambda event: lines.append(repr(event)))
        found = await shown(link, process.pid)
        assert found.argv[-2:] == ("--api-key", "••••")
        identity = list(link.state.identity(found))
        detail = await link.request(protocol.DETAIL, deadline_s=60.0, process=identity)
        assert detail["argv"][-2:] == ["--api-key", "••••"]
        assert detail["argv_masked"] == 1
        assert "HF_TOKEN" in detail["env_names"]
        plan = await make_plan(link, protocol.PAUSE, [link.state.identity(found)])
        await carry_out(link, plan, lambda outcome: None)
        audit = await link.request(protocol.AUDIT, deadline_s=60.0)
        assert [record["record"] for record in audit["records"]] == ["intent", "result"]
        everything = repr((link.state, detail, plan, audit, lines))
        assert "QzV3rySecretValue" not in everything
        assert "QzV3rySecretValue" not in Path(audit["path"]).read_text(encoding="ascii")
