"""The agent on every Python of this machine that a host may have."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from console.agent import protocol
from console.host.actions import carry_out, make_plan
from console.host.connect import HostSpec, make_link
from console.host.prompts import NoPrompts
from tests.system.operator import until
from tests.system.specimens import Specimens

NAMES = ["python3", *(f"python3.{minor}" for minor in range(9, 16)), "pypy3"]


def pythons() -> dict[str, str]:
    """Return version → path of the Pythons on the search path that are new enough; this one is always among them."""
    found = {"this one": sys.executable}
    known = {sys.version_info[:2]}
    for name in NAMES:
        path = shutil.which(name)
        if path is None:
            continue
        command = [path, "-c", "import json, sys; print(json.dumps(sys.version_info[:2]))"]
        done = subprocess.run(command, capture_output=True, text=True)
        version = tuple(json.loads(done.stdout)) if done.returncode == 0 else (0, 0)
        if version >= (3, 9) and version not in known:
            known.add(version)
            found[name] = path
    return found


PYTHONS = pythons()


@pytest.mark.usefixtures("client_home")
@pytest.mark.parametrize("name", PYTHONS)
async def test_the_agent_sees_and_acts(name: str, tmp_path: Path) -> None:
    specimens = Specimens(tmp_path)
    process = specimens.sleeper(b"odd\xff\n", "--api-key", "QzSecret")
    link = make_link(HostSpec("here", python=PYTHONS[name], interval_s=0.2, disks=("/",)), NoPrompts())
    task = asyncio.create_task(link.run())
    try:
        await link.wait_up(60.0)
        await until(lambda: link.state.complete and process.pid in link.state.processes, "the list")
        hello = link.state.hello
        assert hello is not None and hello.can["pidfd"] is True
        assert tuple(map(int, hello.python.split(".")[:2])) >= (3, 9)
        target = link.state.processes[process.pid]
        assert target.argv[-3:] == ("odd\udcff\n", "--api-key", "••••")
        await until(lambda: link.state.gauges.cores, "the gauges")
        await until(lambda: link.state.driver.state != "unknown", "the GPUs")
        identity = link.state.identity(target)
        detail = await link.request(protocol.DETAIL, deadline_s=60.0, process=list(identity))
        assert detail["argv"][-1] == "••••"
        for action, states in (("pause", "T"), ("resume", "RS"), ("kill", "Z")):
            plan = await make_plan(link, action, [identity])
            outcome = await carry_out(link, plan, lambda outcome: None)
            assert outcome.ok, outcome
            assert outcome.targets[0].state_after in tuple(states)
        audit = await link.request(protocol.AUDIT, deadline_s=60.0)
        assert [record["record"] for record in audit["records"]] == ["intent", "result"] * 3
        assert not link.state.faults
    finally:
        await link.close()
        await asyncio.gather(task, return_exceptions=True)
        specimens.end()
