"""The host's own figures against psutil, and what the panel says when there is none."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from console.agent import gauges, protocol
from console.agent.gauges import Gauges
from tests.system.raw_agent import RawAgent
from tests.system.specimens import wait_for

pytestmark = pytest.mark.usefixtures("client_home")

NEEDS_PSUTIL = {"cpu_percent", "memory", "swap", "network"}


@pytest.fixture
def start_agent() -> Iterator[Callable[..., RawAgent]]:
    agents: list[RawAgent] = []

    def start(*python: str, **options: Any) -> RawAgent:
        agents.append(RawAgent(*python, **options))
        return agents[-1]

    yield start
    for agent in agents:
        agent.close()


@pytest.fixture
def sampling() -> Iterator[Callable[..., Gauges]]:
    made: list[Gauges] = []

    def start(*disks: str) -> Gauges:
        made.append(Gauges(disks, 0.2))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.stop()


def test_the_figures_are_those_of_psutil(start_agent: Callable[..., RawAgent], tmp_path: Path) -> None:
    agent = start_agent()
    agent.start(disks=[str(tmp_path), "/nonexistent"])
    first = agent.event(protocol.GAUGES)
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    assert first["cores"] == psutil.cpu_count()
    assert first["load"] == pytest.approx(os.getloadavg(), rel=0.5, abs=2.0)
    assert first["memory_total_bytes"] == memory.total
    assert first["memory_used_bytes"] == pytest.approx(memory.total - memory.available, abs=memory.total / 10)
    assert (first["swap_total_bytes"], first["missing"]) == (swap.total, {})
    assert 0.0 <= first["cpu_percent"] <= 100.0
    event = agent.until(lambda m: "net_rx_bytes_per_s" in m and "free_bytes" in m["disks"][0], "rates and disks")
    assert event["net_rx_bytes_per_s"] >= 0 and event["net_tx_bytes_per_s"] >= 0
    usage = shutil.disk_usage(tmp_path)
    disk, missing = event["disks"]
    assert (disk["path"], disk["total_bytes"]) == (str(tmp_path), usage.total)
    assert disk["free_bytes"] == pytest.approx(usage.free, abs=usage.total / 10)
    assert missing == {"path": "/nonexistent", "error": "No such file or directory"}


def test_the_processors_share_of_time(sampling: Callable[..., Gauges]) -> None:
    before = psutil.cpu_times()
    found = sampling()
    sample = wait_for(found.snapshot, "the first figures", 0.005)
    after = psutil.cpu_times()
    spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    total = sum(spent.values()) - spent.get("guest", 0.0) - spent.get("guest_nice", 0.0)
    busy = total - spent["idle"] - spent.get("iowait", 0.0)
    assert "net_rx_bytes_per_s" not in sample, "no rate from one reading"
    assert sample["cpu_percent"] == pytest.approx(100.0 * busy / total, abs=25.0)


@pytest.mark.parametrize(
    ("python", "modules", "reason"),
    [
        ((sys.executable, "-I", "-S"), {}, "psutil is not installed for the host's Python (ModuleNotFoundError)"),
        ((), {"psutil": "raise ImportError('no')"}, "psutil is not installed for the host's Python (ImportError)"),
        ((), {"psutil": "1 / 0"}, "psutil is not installed for the host's Python (ZeroDivisionError)"),
    ],
    ids=["not there", "blocked", "broken"],
)
def test_without_psutil_they_say_so_and_the_rest_goes_on(
    start_agent: Callable[..., RawAgent], python: tuple[str, ...], modules: dict[str, str], reason: str
) -> None:
    agent = start_agent(*python, extra_modules=modules)
    agent.start(disks=["/"])
    event = agent.event(protocol.GAUGES)
    assert event["missing"] == dict.fromkeys(NEEDS_PSUTIL, reason)
    assert not {"cpu_percent", "memory_used_bytes", "net_rx_bytes_per_s"} & event.keys()
    assert event["cores"] == os.cpu_count() and len(event["load"]) == 3
    assert event["disks"][0]["path"] == "/"
    assert not [message for message in agent.seen if message.get("ev") == protocol.FAULT]
    agent.event(protocol.PROCS)


def test_a_psutil_that_fails_takes_nothing_else_down(start_agent: Callable[..., RawAgent]) -> None:
    broken = "def cpu_percent(_): return 5.0\ndef virtual_memory(): raise FileNotFoundError('/proc/meminfo')\n"
    agent = start_agent(extra_modules={"psutil": broken})
    agent.start()
    event = agent.event(protocol.GAUGES)
    assert event["missing"].keys() == NEEDS_PSUTIL
    assert event["missing"]["memory"] == "psutil failed: /proc/meminfo"
    assert event["cores"] == os.cpu_count()


def test_the_first_figure_has_a_baseline_of_its_own(start_agent: Callable[..., RawAgent]) -> None:
    counting = (
        "from types import SimpleNamespace as N\ncalls = []\n"
        "def cpu_percent(_):\n    calls.append(1)\n    return 10.0 * len(calls)\n"
        "def virtual_memory(): return N(total=10, available=4)\n"
        "def swap_memory(): return N(used=1, total=2)\n"
        "def net_io_counters(pernic): return {'lo': N(bytes_recv=9, bytes_sent=9)}\n"
    )
    agent = start_agent(extra_modules={"psutil": counting})
    agent.start()
    event = agent.event(protocol.GAUGES)
    # psutil's first figure is the average since the machine was started.
    assert event["cpu_percent"] >= 20.0
    assert (event["memory_used_bytes"], event["swap_used_bytes"], event["missing"]) == (6, 1, {})


def test_a_disk_that_does_not_answer_is_told_and_holds_up_nothing(
    sampling: Callable[..., Gauges], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    ahead = 0.0

    def disk_usage(path: str) -> None:
        gate.wait(60.0)
        raise OSError(5, "I/O")

    monkeypatch.setattr(gauges.shutil, "disk_usage", disk_usage)
    monkeypatch.setattr(gauges, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + ahead))
    found = sampling("/net")
    try:
        sample = wait_for(found.snapshot, "the first figures")
        assert sample["disks"] == [{"path": "/net", "error": "not read yet"}]
        assert sample["memory_total_bytes"] == psutil.virtual_memory().total
        ahead = 75.0
        assert found.snapshot()["disks"][0]["error"].startswith("no answer for 7")
    finally:
        gate.set()
    wait_for(lambda: found.snapshot()["disks"] == [{"path": "/net", "error": "I/O"}], "the disk answers")
