"""Actions on a host with GPUs: the real pynvml on the NVML stand-in, behind a real sshd."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from console.agent.related import SPARED_SHOWN
from tests.nvml.build import Scenario, build_standin, standin_env
from tests.system.agent_link import act, link_over_ssh, plan_for, up
from tests.system.conftest import console_for
from tests.system.jobs import Jobs, ended, said
from tests.system.operator import until
from tests.system.sshd import SshdServer

GIB = 2**30

SERVER = """
import subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", "input()", f"--rank={n}"], stdin=subprocess.PIPE) for n in range(8)]
print(*[rank.pid for rank in ranks], flush=True)
sys.stdin.read()
"""

FOREIGN_PID = 4_194_000


@pytest.fixture(scope="session")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled stand-in."""
    return build_standin(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    """Eight GPUs that nobody uses yet."""
    return Scenario(tmp_path / "scenario", "count 8", *[f"gpu {n} mem {GIB} {96 * GIB}" for n in range(8)])


@pytest.fixture
def gpu_host(make_sshd: Callable[..., SshdServer], standin: Path, scenario: Scenario) -> SshdServer:
    """A host whose driver is the stand-in."""
    return make_sshd(environment=standin_env(standin, scenario.path)).start()


def server(jobs: Jobs, scenario: Scenario) -> tuple[int, list[int]]:
    """Start a server with eight ranks that hold 74 GiB each; return its pid and theirs."""
    main = jobs.python(SERVER, name="launch_server.py", start_new_session=True)
    ranks = [int(word) for word in said(main).split()]
    scenario.add(*[f"gpu {n} proc {pid} {74 * GIB}" for n, pid in enumerate(ranks)])
    return main.pid, ranks


async def test_a_kill_shows_the_memory_it_freed(
    gpu_host: SshdServer, scenario: Scenario, client_home: Path, jobs: Jobs, bystanders: Jobs
) -> None:
    main, ranks = server(jobs, scenario)
    alone = bystanders.sleeper(start_new_session=True)
    scenario.add(f"gpu 0 proc {alone.pid} {GIB}", f"gpu 1 proc {FOREIGN_PID} {GIB}")
    async with up(link_over_ssh(gpu_host)) as link:
        await until(lambda: set(ranks) <= set(link.state.gpu_bytes()), "the ranks' memory is known")
        before = link.state.gpu_bytes()
        assert sum(before[pid] for pid in ranks) == 8 * 74 * GIB
        # A pid that /proc does not confirm is listed as such, and holds nothing that could be acted on.
        (foreign,) = [p for p in link.state.gpus[1].processes or () if p.pid == FOREIGN_PID]
        assert (foreign.start_ticks, FOREIGN_PID in before) == (None, False)
        assert "/proc" in foreign.note

        paused = await plan_for(link, "pause", main)
        assert {t.pid for t in paused.targets} == {main, *ranks}
        assert any("NCCL" in warning and "8 of these hold GPU memory" in warning for warning in paused.warnings)

        drop = [line for line in scenario.lines if any(f" proc {pid} " in line for pid in ranks)]
        plan = await plan_for(link, "kill", main)
        assert sum(t.gpu_bytes or 0 for t in plan.targets) == 8 * 74 * GIB
        assert [(p.pid, p.gpu_bytes, p.gpu_count) for p in plan.spared] == [(alone.pid, GIB, 1)]
        # The driver lets go with the processes.
        scenario.remove(*drop)
        outcome = await act(link, "kill", main)
        assert outcome.ok
        assert outcome.gpu_bytes_after == 0
        assert outcome.gpu_holders == ()
    assert all(ended(pid) for pid in [main, *ranks])
    assert alone.poll() is None


async def test_memory_that_the_driver_keeps_is_told(
    gpu_host: SshdServer, scenario: Scenario, client_home: Path, jobs: Jobs
) -> None:
    main, ranks = server(jobs, scenario)
    async with up(link_over_ssh(gpu_host)) as link:
        await until(lambda: set(ranks) <= set(link.state.gpu_bytes()), "the ranks' memory is known")
        outcome = await act(link, "kill", main)
    assert outcome.ok
    assert outcome.gpu_bytes_before == 8 * 74 * GIB
    # A rank's pid may be another process' by now (the machine is busy with tests that make pids come round).
    assert outcome.gpu_bytes_after in range(74 * GIB, 8 * 74 * GIB + 1, 74 * GIB)
    assert outcome.gpu_holders
    assert set(outcome.gpu_holders) <= {f"{pid} still holds 74.0 GiB" for pid in ranks}


async def test_a_client_beside_a_server_leaves_it_up(
    gpu_host: SshdServer, scenario: Scenario, client_home: Path, jobs: Jobs, bystanders: Jobs
) -> None:
    main, ranks = server(bystanders, scenario)
    client = jobs.sleeper("run_inference.py", start_new_session=True)
    over_ssh = console_for(gpu_host, client_home)
    async with up(link_over_ssh(gpu_host)) as link:
        await until(lambda: set(ranks) <= set(link.state.gpu_bytes()), "the ranks' memory is known")
        plan = await plan_for(link, "stop", client.pid)
    assert [t.pid for t in plan.targets] == [client.pid]
    (spared,) = plan.spared
    assert (spared.pid, spared.gpu_bytes, spared.gpu_count) == (main, 8 * 74 * GIB, 8)
    assert len(plan.spared) <= SPARED_SHOWN
    outcome = over_ssh.act("stop", client.pid)
    assert (outcome["gpu_bytes_before"], outcome["gpu_bytes_after"]) == (0, 0)
    rows = {row["pid"]: row for row in over_ssh.json("ps", "--gpu")}
    assert {pid: row["gpu_bytes"] for pid, row in rows.items()} == dict.fromkeys(ranks, 74 * GIB)
    assert not any(ended(pid) for pid in [main, *ranks])


async def test_related_holders_are_offered_and_never_added(
    gpu_host: SshdServer, scenario: Scenario, client_home: Path, jobs: Jobs
) -> None:
    folder = jobs.folder
    main = jobs.sleeper(start_new_session=True, cwd=folder)
    await asyncio.sleep(0.05)  # a start is counted in hundredths of a second
    later = jobs.sleeper(start_new_session=True, cwd=folder)
    elsewhere = jobs.python("input()", start_new_session=True, cwd="/")
    scenario.add(*[f"gpu 2 proc {job.pid} {GIB}" for job in (main, later, elsewhere)])
    async with up(link_over_ssh(gpu_host)) as link:
        await until(lambda: {later.pid, elsewhere.pid} <= set(link.state.gpu_bytes()), "their memory is known")
        plan = await plan_for(link, "kill", main.pid)
        assert [t.pid for t in plan.targets] == [main.pid]
        assert [c.pid for c in plan.candidates] == [later.pid]
        # Started before: what was there when the target came is not its offspring.
        assert (await plan_for(link, "kill", later.pid)).candidates == ()
