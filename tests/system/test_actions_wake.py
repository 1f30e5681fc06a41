"""A paused process that runs again by itself raises an alarm; one that a console resumed does not."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil

from console.agent import protocol
from console.host.actions import operator_name
from console.host.link import HostLink
from tests.system.agent_link import act, link_over_ssh, up
from tests.system.console_cli import Console
from tests.system.jobs import Jobs, wait_for
from tests.system.operator import until
from tests.system.sshd import SshdServer


async def paused_job_of_a_shell(link: HostLink, jobs: Jobs) -> tuple[int, int]:
    """Start a nohup job under a shell, pause the job alone; return the pids of shell and job."""
    # As under a shell on a terminal: the job is in a group of its own, in the shell's session.
    own_group = "import os; os.setpgid(0, 0); os.execvp('nohup', ['nohup', 'sleep', '3600'])"
    script = '"$@" >/dev/null 2>&1 & echo $!; read x'
    shell = jobs.start(["/bin/sh", "-c", script, "sh", sys.executable, "-c", own_group], start_new_session=True)
    assert shell.stdout is not None
    job = int(shell.stdout.readline())
    wait_for(lambda: psutil.Process(job).name() == "sleep", "nohup has made room for the job")
    await until(lambda: job in link.state.processes, "the agent has seen the job")
    assert (await act(link, "pause", job)).ok
    await until(lambda: job in link.state.pauses, "the pause is known")
    return shell.pid, job


async def test_a_wake_up_by_the_kernel_is_noticed(sshd: SshdServer, client_home: Path, jobs: Jobs) -> None:
    async with up(link_over_ssh(sshd, interval_s=1.0)) as link:
        shell, job = await paused_job_of_a_shell(link, jobs)
        pause = link.state.pauses[job]
        assert pause.by == operator_name()
        os.kill(shell, signal.SIGKILL)
        # The orphaned stopped group gets SIGHUP, which nohup ignores, and SIGCONT.
        wait_for(lambda: psutil.Process(job).status() != psutil.STATUS_STOPPED, "it woke")
        samples: list[object] = []
        link.listen(lambda event: samples.append(event) if event["ev"] == protocol.PROCS else None)
        await until(lambda: link.state.alerts, "the alarm")
        alert = link.state.alerts[-1]
        assert (alert.kind, alert.pid, alert.start_ticks) == ("woke", job, pause.start_ticks)
        assert "runs again by itself" in alert.text
        # Samples are a second apart: the second one after the wake-up at the latest told.
        assert len(samples) <= 2
        assert job not in link.state.pauses


async def test_another_console_may_resume_it(over_ssh: Console, sshd: SshdServer, jobs: Jobs) -> None:
    async with up(link_over_ssh(sshd)) as first:
        _, job = await paused_job_of_a_shell(first, jobs)
        async with up(link_over_ssh(sshd)) as second:
            # Who stopped it is read from the host's audit file.
            await until(
                lambda: job in second.state.pauses and second.state.pauses[job].by, "the second agent knows who"
            )
            assert second.state.pauses[job].action_id == first.state.pauses[job].action_id
            await asyncio.to_thread(over_ssh.act, "resume", job)
            await until(lambda: job not in first.state.pauses and job not in second.state.pauses, "both see it run")
            assert first.state.alerts == second.state.alerts == ()


async def test_a_stop_that_is_not_ours_is_shown_without_a_name(sshd: SshdServer, client_home: Path, jobs: Jobs) -> None:
    job = jobs.sleeper()
    async with up(link_over_ssh(sshd)) as link:
        os.kill(job.pid, signal.SIGSTOP)
        await until(lambda: job.pid in link.state.pauses, "it is seen")
        assert link.state.pauses[job.pid].by == ""
        os.kill(job.pid, signal.SIGCONT)
        await until(lambda: job.pid not in link.state.pauses, "it runs again")
        assert link.state.alerts == ()


async def test_the_end_of_a_paused_process_is_an_alarm(sshd: SshdServer, client_home: Path, jobs: Jobs) -> None:
    job = jobs.sleeper(start_new_session=True)
    async with up(link_over_ssh(sshd)) as link:
        await until(lambda: job.pid in link.state.processes, "the agent has seen it")
        assert (await act(link, protocol.PAUSE, job.pid)).ok
        await until(lambda: job.pid in link.state.pauses, "the pause is known")
        os.kill(job.pid, signal.SIGKILL)
        await until(lambda: link.state.alerts, "the alarm")
        assert "ended while it was paused" in link.state.alerts[-1].text
