"""What is refused, with exit code 3, the reason in words, and a record on the host."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import psutil
import pytest

from console.agent import plans, procfs, protocol
from console.agent.auditfile import AuditFile
from console.agent.context import Context
from console.agent.signals import Action
from console.host.actions import plan_from_wire
from tests.system.console_cli import Console, identity_of
from tests.system.jobs import Jobs


def refused(console: Console, *words: Any) -> str:
    """Try an action that must be refused; return why, which the audit file must say as well."""
    outcome = console.act(*words, code=3)
    assert all(t["sent"] is None and not t["verified"] for t in outcome["targets"])
    assert outcome["targets"]
    last = console.audit()[-1]
    assert (last["action_id"], last["phase"], last["refusal"]) == (outcome["action_id"], "refused", outcome["refusal"])
    reason: str = outcome["refusal"]
    return reason


def test_the_first_process(console: Console) -> None:
    assert "first process" in refused(console, "kill", 1)


def test_a_process_that_is_gone(console: Console, jobs: Jobs) -> None:
    job = jobs.sleeper()
    shown = identity_of(job.pid)[2]
    jobs.end()
    assert refused(console, "stop", job.pid) == f"there is no process {job.pid} any more: it has ended"
    assert "has ended" in refused(console, "stop", job.pid, "--start-ticks", shown)


def test_other_start_ticks(console: Console, jobs: Jobs) -> None:
    job = jobs.sleeper()
    real = identity_of(job.pid)[2]
    assert refused(console, "kill", job.pid, "--start-ticks", real - 1) == (
        f"pid {job.pid} is another process now (start {real}, not {real - 1})"
    )
    assert job.poll() is None


def test_a_kernel_thread(console: Console) -> None:
    threads = procfs.read_stat(2)
    if threads is None or not threads.kernel:
        # A container has a process namespace without any; then there is nothing that could be hit.
        assert not any(stat.kernel for stat in map(procfs.read_stat, procfs.list_pids()) if stat is not None)
        return
    assert "kernel thread" in refused(console, "pause", threads.pid, "--only")


def test_what_the_console_runs_under(console: Console) -> None:
    """This very test run is an ancestor of the command, which is on the same machine as its host."""
    assert "the link would be cut" in refused(console, "pause", os.getpid(), "--only")


def test_a_set_that_holds_the_agent(over_ssh: Console) -> None:
    rows = over_ssh.json("ps")
    sshd = next(r for r in rows if r["comm"] == "sshd" and any(c["ppid"] == r["pid"] and c["ours"] for c in rows))
    assert "the link would be cut" in refused(over_ssh, "kill", sshd["pid"])
    assert psutil.pid_exists(sshd["pid"])


def test_a_host_without_pidfd(jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.sleeper()
    context = Context(AuditFile(str(tmp_path / "audit.jsonl")), lambda event: None)
    allowed = plans.make_plan(context, protocol.KILL, protocol.TREE, [identity_of(job.pid)])
    context.no_pidfd = "the kernel refuses pidfd_open; Linux 5.3 or newer is needed"
    plan = plan_from_wire(plans.make_plan(context, protocol.KILL, protocol.TREE, [identity_of(job.pid)]))
    assert plan.refusal_kind == "pidfd"
    targets = [
        {"id": [t["boot_id"], t["pid"], t["start_ticks"]], "uid": t["uid"], "argv_digest": t["argv_digest"]}
        for t in allowed["targets"]
    ]
    request = {"action_id": "a", "action": "kill", "scope": "tree", "roots": allowed["roots"], "targets": targets}
    outcome = Action(context, request).run()
    assert (outcome["phase"], outcome["refusal_kind"], outcome["ok"]) == ("refused", "pidfd", False)
    assert job.poll() is None


@pytest.mark.parametrize(
    "words", [("stop", "0"), ("kill", "x"), ("pause", "1", "--only", "--tree"), ("stop", "5", "--grace", "0")]
)
async def test_bad_input_is_not_a_refusal(here: Console, words: tuple[str, ...]) -> None:
    done = await asyncio.to_thread(here.run, *words, "--yes")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
