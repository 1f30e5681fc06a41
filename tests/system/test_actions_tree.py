"""Whole trees: whatever its processes did to get away, an action reaches all of a job and nothing beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.system.agent_link import act, link_over_ssh, plan_for, up
from tests.system.console_cli import Console
from tests.system.job_trees import STORM, TREE
from tests.system.jobs import MARK, Jobs, all_stopped, compile_c, ended, said, start_ticks, states, told, wait_for
from tests.system.operator import until
from tests.system.rebirth import in_own_pids
from tests.system.sshd import SshdServer


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(tmp_path_factory.mktemp("storm"), "storm", STORM)


def shell_with(
    jobs: Jobs, bystanders: Jobs, *words: str, monitor: bool
) -> tuple[subprocess.Popen[str], dict[str, int]]:
    """Start a shell that runs the tree as a job beside other jobs; return the shell and the tree's pids.

    With ``monitor`` (as a shell on a terminal does) the job gets a group of its own; all share the shell's session.
    """
    tree = f'{MARK}={jobs.mark} "$@" &'
    script = f"sleep 3600 & {tree} sleep 3601 & (sleep 3602 & sleep 3603) & read x"
    command = [sys.executable, str(jobs.script(TREE, "tree.py")), *words]
    if monitor:
        # A shell has job control only on a terminal; this is what it would do between fork and exec.
        own_group = "import os, sys; os.setpgid(0, 0); os.execv(sys.argv[1], sys.argv[1:])"
        command = [sys.executable, "-c", own_group, *command]
    shell = bystanders.start(["bash", "-c", script, "bash", *command], start_new_session=True)
    pids = told(shell)
    wait_for(lambda: len(bystanders.alive()) == 6, "the shell's other jobs run")
    assert {os.getsid(pid) for pid in bystanders.alive()} == {shell.pid} == {os.getsid(pids["main"])}
    return shell, pids


def untouched(bystanders: Jobs, before: dict[int, int]) -> bool:
    """Return whether those beside the job are the same as ``before``, and none was ever stopped."""
    letters = states(bystanders.alive())
    return {pid: start_ticks(pid) for pid in letters} == before and all(found == {"S"} for found in letters.values())


def keys(pids: set[int]) -> dict[int, int]:
    return {pid: start_ticks(pid) for pid in pids}


def test_a_tree_started_from_a_shell(console: Console, jobs: Jobs, bystanders: Jobs) -> None:
    shell, pids = shell_with(jobs, bystanders, monitor=True)
    members, before = set(pids.values()), keys(bystanders.alive())
    assert members == jobs.alive()
    assert psutil.Process(pids["orphan"]).ppid() not in members | {shell.pid}
    assert os.getsid(pids["session"]) == pids["session"] != os.getsid(pids["main"])

    paused = console.act("pause", pids["main"])
    assert {t["pid"] for t in paused["targets"]} == members
    assert all(t["state_after"] == "T" and t["verified"] and t["sent"] == "SIGSTOP" for t in paused["targets"])
    assert all_stopped(members)
    assert untouched(bystanders, before)
    rows = {row["pid"]: row for row in console.json("ps") if row["pid"] in members}
    assert {row["state"] for row in rows.values()} == {"T"}
    assert all(row["paused_by"] for row in rows.values())

    resumed = console.act("resume", pids["main"])
    assert {t["pid"] for t in resumed["targets"]} == members
    assert not any("T" in letters for letters in states(members).values())
    assert untouched(bystanders, before)

    killed = console.act("kill", pids["main"])
    assert {t["pid"] for t in killed["targets"]} == members
    assert (jobs.alive(), killed["left"]) == (set(), [])
    assert all(ended(pid) for pid in members)
    assert untouched(bystanders, before)


async def test_what_was_once_seen_under_the_job_stays_in_its_set(
    sshd: SshdServer, client_home: Path, jobs: Jobs, bystanders: Jobs
) -> None:
    """A shell without job control: nobody but the job's own sub-groups is led by a member, and parents die."""
    _, pids = shell_with(jobs, bystanders, "late", monitor=False)
    before = keys(bystanders.alive())
    assert os.getpgid(pids["main"]) != pids["main"]
    async with up(link_over_ssh(sshd)) as link:
        await until(lambda: {pids["late"], pids["in_group"]} <= set(link.state.processes), "the agent has seen them")
        os.kill(pids["main"], signal.SIGUSR1)
        # Between two samples the parent of one and the leader of the other's group end.
        wait_for(lambda: ended(pids["middle"]) and ended(pids["group"]), "they ended")
        assert psutil.Process(pids["late"]).ppid() not in pids.values()
        assert os.getsid(pids["late"]) == pids["late"]
        # The double fork was over before any agent was there, and left no trace but the shell's own group.
        members = set(pids.values()) - {pids["middle"], pids["group"], pids["orphan"]}
        plan = await plan_for(link, "pause", pids["main"])
        why = {t.pid: t.why for t in plan.targets}
        assert set(why) == members
        assert why[pids["late"]] == f"was a child of {pids['middle']}"
        assert why[pids["in_group"]] == f"in the process group led by {pids['group']}"
        assert (await act(link, "pause", pids["main"])).ok
        assert all_stopped(members)
        assert (await act(link, "resume", pids["main"])).ok
        assert not any("T" in letters for letters in states(members).values())
        killed = await act(link, "kill", pids["main"])
        assert {t.pid for t in killed.targets} == members
    assert all(ended(pid) for pid in members)
    assert untouched(bystanders, before)
    assert jobs.alive() == {pids["orphan"]}


def test_only_leaves_the_rest_alone(console: Console, jobs: Jobs, bystanders: Jobs) -> None:
    _, pids = shell_with(jobs, bystanders, monitor=True)
    others = set(pids.values()) - {pids["threads"]}
    outcome = console.act("pause", pids["threads"], "--only")
    assert [t["pid"] for t in outcome["targets"]] == [pids["threads"]]
    assert all_stopped({pids["threads"]})
    assert not any("T" in letters for letters in states(others).values())
    outcome = console.act("kill", pids["session"], "--only")
    assert [t["pid"] for t in outcome["targets"]] == [pids["session"]]
    assert ended(pids["session"])
    assert jobs.alive() == set(pids.values()) - {pids["session"]}


@in_own_pids
@pytest.mark.parametrize("how", ["fork", "vfork"])
@pytest.mark.parametrize("action", ["pause", "kill"])
def test_a_storm_of_forks(over_ssh: Console, jobs: Jobs, bystanders: Jobs, storm: Path, how: str, action: str) -> None:
    bystander = bystanders.sleeper()
    hoppers = 4 if how == "fork" else 0
    job = jobs.start([storm, "120", "50", str(hoppers), how], start_new_session=True)
    assert said(job) == "on"
    wait_for(lambda: len(jobs.alive()) > (60 if how == "fork" else 1), "the storm is at its height")
    if action == "pause":
        outcome = over_ssh.act("pause", job.pid)
        standing = jobs.alive()
        assert all_stopped(standing), states(standing)
        assert {t["pid"] for t in outcome["targets"] if t["state_after"] == "T"} >= standing
        assert jobs.alive() == standing, "nobody is born any more"
        over_ssh.act("resume", job.pid)
        wait_for(lambda: not any("T" in letters for letters in states(jobs.alive()).values()), "none is stopped")
        wait_for(lambda: not standing & jobs.alive() - {job.pid}, "the short-lived go on to their end")
    outcome = over_ssh.act("kill", job.pid)
    assert outcome["left"] == []
    assert jobs.alive() == set()
    assert ended(job.pid)
    assert not ended(bystander.pid)
