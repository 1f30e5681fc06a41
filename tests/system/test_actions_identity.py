"""A plan names processes, not numbers: what took over a pid, or a process that became another, is never signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.host.actions import carry_out
from tests.system.agent_link import act, link_over_ssh, plan_for, up
from tests.system.console_cli import Console, Terminal
from tests.system.jobs import Jobs, ended, said, start_ticks, told, wait_for
from tests.system.operator import until
from tests.system.rebirth import Reborn, in_own_pids
from tests.system.sshd import SshdServer

JOB = ["/bin/sh", "-c", "echo on; read x", "--partition", "all"]
NEWCOMER = [sys.executable, "-c", "import signal, time\nwhile True: time.sleep(0.05)", "--partition", "all"]
"""Same user; the tests that want it have the job run with the same arguments too, so that only the start differs."""

PARENT = """
import json, os, signal, subprocess, sys
member = subprocess.Popen(sys.argv[1:])
print(json.dumps({"member": member.pid}), flush=True)
for line in sys.stdin:
    member.kill()
    member.wait()
    print("collected", flush=True)
"""
"""A main process with one member, which it ends and collects on demand."""

CHANGES = """
import os, signal, sys
def change(number, frame):
    if sys.argv[1] == "exec":
        os.execv(sys.executable, [sys.executable, "-c", "import time; print('changed', flush=True); time.sleep(3600)"])
    os.setuid(65534)
    print("changed", flush=True)
signal.signal(signal.SIGUSR1, change)
print("on", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def newcomers() -> Iterator[list[Reborn]]:
    born: list[Reborn] = []
    yield born
    for newcomer in born:
        newcomer.end()


def sleeping(jobs: Jobs) -> subprocess.Popen[str]:
    """Start a job with the very arguments of the newcomer."""
    job = jobs.start(NEWCOMER)
    wait_for(lambda: b"--partition" in Path(f"/proc/{job.pid}/cmdline").read_bytes(), "the job's arguments are there")
    return job


def reborn(job: subprocess.Popen[str], newcomers: list[Reborn]) -> Reborn:
    """End ``job`` and let a newcomer have its pid."""
    old = start_ticks(job.pid)
    # Two processes that share pid and start would be one to everybody; the clock of starts has 10 ms.
    wait_for(lambda: ticks_now() > old + 2, "time goes on")
    job.kill()
    job.wait()
    newcomers.append(Reborn(job.pid, NEWCOMER))
    assert start_ticks(job.pid) != old
    return newcomers[-1]


def ticks_now() -> float:
    return float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK")


@in_own_pids
@pytest.mark.parametrize("action", ["pause", "kill", "stop"])
async def test_a_pid_reborn_between_plan_and_signal_is_spared(
    sshd: SshdServer, client_home: Path, jobs: Jobs, newcomers: list[Reborn], action: str
) -> None:
    job = sleeping(jobs)
    async with up(link_over_ssh(sshd)) as link:
        plan = await plan_for(link, action, job.pid)
        assert [t.pid for t in plan.targets] == [job.pid]
        newcomer = reborn(job, newcomers)
        outcome = await carry_out(link, plan, lambda outcome: None)
        assert (outcome.phase, outcome.refusal_kind, outcome.ok) == ("refused", "identity", False)
        assert outcome.refusal.startswith(f"pid {job.pid} is another process now (start ")
        assert [t.sent for t in outcome.targets] == [None]
        assert newcomer.unharmed()
        # What is planned anew is the newcomer itself.
        assert (await act(link, "kill", job.pid)).ok
    assert ended(job.pid)


@in_own_pids
def test_a_reborn_pid_is_not_the_start_ticks_that_ps_showed(
    over_ssh: Console, jobs: Jobs, newcomers: list[Reborn]
) -> None:
    job = sleeping(jobs)
    shown = start_ticks(job.pid)
    newcomer = reborn(job, newcomers)
    for action in ("kill", "pause"):
        outcome = over_ssh.act(action, job.pid, "--start-ticks", shown, code=3)
        assert (
            outcome["refusal"]
            == f"pid {job.pid} is another process now (start {newcomer_start(newcomer)}, not {shown})"
        )
        assert [(t["pid"], t["start_ticks"], t["sent"]) for t in outcome["targets"]] == [(job.pid, shown, None)]
    assert newcomer.unharmed()
    refused = [r for r in over_ssh.audit() if r["phase"] == "refused"]
    assert [r["action"] for r in refused] == ["kill", "pause"]


def newcomer_start(newcomer: Reborn) -> int:
    return start_ticks(newcomer.pid)


@in_own_pids
def test_a_pid_reborn_while_the_operator_reads_the_plan(over_ssh: Console, jobs: Jobs, newcomers: list[Reborn]) -> None:
    job = sleeping(jobs)
    terminal = Terminal(over_ssh.argv("kill", job.pid), over_ssh.environment)
    try:
        shown = terminal.read_until("Type yes to go on")
        assert f"{job.pid}" in shown and "SIGKILL to 1 process" in shown
        newcomer = reborn(job, newcomers)
        terminal.type("yes")
        assert terminal.finish() == 3
    finally:
        terminal.close()
    assert "another process now" in " ".join(terminal.shown.split())
    assert "Traceback" not in terminal.shown
    assert newcomer.unharmed()


def test_only_a_typed_yes_goes_on(over_ssh: Console, jobs: Jobs) -> None:
    job = jobs.sleeper()
    for answer in ("y", "YES!"):
        terminal = Terminal(over_ssh.argv("kill", job.pid), over_ssh.environment)
        try:
            terminal.read_until("Type yes to go on")
            terminal.type(answer)
            assert terminal.finish() == 3
            assert "Cancelled: nothing was sent." in terminal.shown
        finally:
            terminal.close()
    assert not ended(job.pid)
    terminal = Terminal(over_ssh.argv("kill", job.pid), over_ssh.environment)
    try:
        terminal.read_until("Type yes to go on")
        terminal.type("yes")
        assert terminal.finish() == 0
    finally:
        terminal.close()
    assert job.wait() == -signal.SIGKILL


@in_own_pids
@pytest.mark.parametrize("action", ["kill", "pause", "stop"])
async def test_a_member_of_the_set_reborn_elsewhere_is_spared(
    sshd: SshdServer, client_home: Path, jobs: Jobs, newcomers: list[Reborn], action: str
) -> None:
    job = jobs.python(PARENT, *NEWCOMER)
    member = told(job)["member"]
    async with up(link_over_ssh(sshd)) as link:
        await until(lambda: member in link.state.processes, "the agent has seen the member")
        plan = await plan_for(link, action, job.pid, grace_s=30.0)
        assert [t.pid for t in plan.targets] == [job.pid, member]
        old = start_ticks(member)
        wait_for(lambda: ticks_now() > old + 2, "time goes on")
        assert job.stdin is not None
        print("end", file=job.stdin, flush=True)
        assert said(job) == "collected"
        newcomers.append(Reborn(member, NEWCOMER))
        outcome = await carry_out(link, plan, lambda outcome: None)
        assert newcomers[0].unharmed()
        assert outcome.phase == "refused"
        assert f"pid {member} is another process now" in outcome.refusal
        assert all(t.sent is None for t in outcome.targets)
        assert job.poll() is None
        # Nor is it part of the job's set from now on, although its number was.
        fresh = await plan_for(link, action, job.pid)
        assert [t.pid for t in fresh.targets] == [job.pid]
        assert (await act(link, "kill", job.pid)).ok
    assert newcomers[0].unharmed()


@in_own_pids
async def test_a_member_reborn_while_an_action_runs_is_spared(
    sshd: SshdServer, client_home: Path, jobs: Jobs, newcomers: list[Reborn]
) -> None:
    """A long stop: the member ends as asked, its pid is given away, and the main process lives on."""
    job = jobs.python("import signal\nsignal.signal(signal.SIGTERM, lambda *a: None)\n" + PARENT, *NEWCOMER)
    member = told(job)["member"]
    born: list[str] = []

    def progress(outcome: object) -> None:
        if getattr(outcome, "phase", "") == "waiting" and not born:
            born.append("now")
            assert job.stdin is not None
            print("end", file=job.stdin, flush=True)
            assert said(job) == "collected"
            newcomers.append(Reborn(member, NEWCOMER))

    async with up(link_over_ssh(sshd)) as link:
        plan = await plan_for(link, "stop", job.pid, grace_s=3.0)
        outcome = await carry_out(link, plan, progress)
        assert {t.pid: (t.sent, t.verified) for t in outcome.targets} == {
            job.pid: ("SIGTERM", False),
            member: (None, True),
        }
        assert [process.pid for process in outcome.left] == [job.pid]
        left = await carry_out(link, await plan_for(link, "kill", job.pid), lambda outcome: None)
        assert [t.pid for t in left.targets] == [job.pid]
    assert newcomers[0].unharmed()


@pytest.mark.parametrize("action", ["pause", "kill", "stop"])
async def test_exec_between_plan_and_signal_is_refused(
    sshd: SshdServer, client_home: Path, jobs: Jobs, action: str
) -> None:
    job = jobs.python(CHANGES, "exec")
    assert said(job) == "on"
    before = start_ticks(job.pid)
    async with up(link_over_ssh(sshd)) as link:
        plan = await plan_for(link, action, job.pid)
        os.kill(job.pid, signal.SIGUSR1)
        assert said(job) == "changed"
        assert start_ticks(job.pid) == before, "exec keeps the key"
        outcome = await carry_out(link, plan, lambda outcome: None)
        assert (outcome.phase, outcome.refusal_kind) == ("refused", "identity")
        assert outcome.refusal == f"argv of {job.pid} changed: another program runs in it now"
        assert not ended(job.pid)
        records = (await link.request("audit", deadline_s=60.0))["records"]
        assert [(r["record"], r["phase"], r["refusal"]) for r in records] == [("result", "refused", outcome.refusal)]


async def test_another_user_between_plan_and_signal_is_refused(sshd: SshdServer, client_home: Path, jobs: Jobs) -> None:
    """Only root can become somebody else; an ordinary user's process is compared with a uid that it never had."""
    job = jobs.python(CHANGES, "uid")
    assert said(job) == "on"
    async with up(link_over_ssh(sshd)) as link:
        plan = await plan_for(link, "kill", job.pid)
        (target,) = plan.targets
        shown = [{"id": list(target.identity), "uid": target.uid, "argv_digest": target.argv_digest}]
        now = 65534
        if os.geteuid() == 0:
            os.kill(job.pid, signal.SIGUSR1)
            assert said(job) == "changed"
        else:
            now, shown[0]["uid"] = target.uid, target.uid + 1
        answer = await link.request(
            "signal",
            deadline_s=60.0,
            action_id="0123456789abcdef",
            action="kill",
            scope="tree",
            roots=[list(target.identity)],
            targets=shown,
        )
        assert (answer["phase"], answer["refusal_kind"]) == ("refused", "identity")
        assert answer["refusal"] == f"uid of {job.pid} changed: {now}, not {shown[0]['uid']}"
    assert not ended(job.pid)
