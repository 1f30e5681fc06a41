"""What a sleeper's quiet hides: others change it, or it changes itself in a blink; the table must not miss it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from console.agent import procfs
from console.agent.procs import ROTATION, ProcessTable
from tests.system.specimens import Specimens, key_of, tell, wait_for


class Watch:
    """A table, and how many samples it took to notice something."""

    def __init__(self, specimens: Specimens, monkeypatch: pytest.MonkeyPatch) -> None:
        self.specimens = specimens
        self.table = ProcessTable(b"s" * 16)
        self.read: list[int] = []
        real = ProcessTable._read_stat

        def spied(table: ProcessTable, entry: Any) -> procfs.Stat | None:
            self.read.append(entry.pid)
            return real(table, entry)

        monkeypatch.setattr(ProcessTable, "_read_stat", spied)

    def settle(self, pid: int) -> None:
        """Sample until ``pid`` is passed over as idle."""

        def idle() -> bool:
            self.read.clear()
            self.table.sample()
            return pid not in self.read

        wait_for(idle, f"{pid} is idle")

    def row(self, pid: int) -> dict[str, Any]:
        row = self.table.row(key_of(pid))
        assert row is not None
        return row

    def samples_until(self, condition: Callable[[], bool]) -> int:
        """Return after how many samples ``condition`` holds; ROTATION + 1 if it does not by then."""
        for count in range(1, ROTATION + 1):
            self.table.sample()
            if condition():
                return count
        return ROTATION + 1


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    specimens = Specimens(tmp_path)
    made = Watch(specimens, monkeypatch)
    yield made
    made.table.close()
    specimens.end()


def test_a_sleeper_is_read_once_a_rotation(watch: Watch) -> None:
    process = watch.specimens.sleeper()
    watch.settle(process.pid)
    for _ in range(2):
        watch.read.clear()
        for _ in range(ROTATION):
            watch.table.sample()
    assert watch.read.count(process.pid) == 1
    assert watch.read.count(os.getpid()) == ROTATION, "one that runs is read every time"


def test_a_group_that_the_parent_sets(watch: Watch) -> None:
    parent, child = watch.specimens.forker()
    watch.settle(child)
    assert watch.row(child)["pgid"] == os.getpgid(parent.pid)
    tell(parent, "setpgid")
    assert watch.samples_until(lambda: watch.row(child)["pgid"] == child) <= ROTATION
    assert watch.table.live[child].pgid == child


def test_memory_that_grows_from_outside(watch: Watch) -> None:
    parent, child = watch.specimens.forker()
    watch.settle(child)
    before = watch.row(child)["rss_bytes"]
    tell(parent, "grow")
    assert psutil.Process(child).memory_info().rss > before + (3 << 20)
    assert watch.samples_until(lambda: watch.row(child)["rss_bytes"] > before + (3 << 20)) <= ROTATION


@pytest.mark.parametrize("collected", [True, False], ids=["collected", "left as a zombie"])
def test_a_parent_that_ends(watch: Watch, collected: bool) -> None:
    parent, child = watch.specimens.forker()
    watch.settle(child)
    assert watch.row(child)["ppid"] == parent.pid
    os.kill(parent.pid, signal.SIGKILL)
    if collected:
        parent.wait()
    else:
        os.waitid(os.P_PID, parent.pid, os.WEXITED | os.WNOWAIT)
    adopter = psutil.Process(child).ppid()
    assert adopter != parent.pid
    assert watch.samples_until(lambda: watch.row(child)["ppid"] == adopter) <= 2


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        ("title sglang::scheduler", "argv", ["sglang::scheduler"]),
        ("comm rank 0) S 1", "comm", "rank 0) S 1"),
        ("threads 3", "threads", 4),
    ],
)
def test_a_change_of_its_own_in_a_blink(watch: Watch, words: str, field: str, value: Any) -> None:
    process = watch.specimens.changer("long argument that leaves room for a title")
    watch.settle(process.pid)
    tell(process, words)

    def changed() -> bool:
        found = watch.row(process.pid)[field]
        return ([arg for arg in found if arg] if field == "argv" else found) == value

    assert watch.samples_until(changed) <= 6


def test_exec_in_place_keeps_the_key_and_changes_the_rest(watch: Watch) -> None:
    process = watch.specimens.changer()
    watch.settle(process.pid)
    key, digest = key_of(process.pid), watch.row(process.pid)["argv_digest"]
    tell(process, "exec another-program", answers=False)
    wait_for(lambda: "another-program" in psutil.Process(process.pid).cmdline(), "the exec")
    assert watch.samples_until(lambda: watch.row(process.pid)["argv"][-1] == "another-program") <= 6
    assert key_of(process.pid) == key
    assert watch.row(process.pid)["argv_digest"] != digest


def test_a_stop_is_seen_at_once(watch: Watch) -> None:
    process = watch.specimens.sleeper()
    watch.settle(process.pid)
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
    assert watch.samples_until(lambda: watch.row(process.pid)["state"] == "T") == 1
    os.kill(process.pid, signal.SIGCONT)
    wait_for(lambda: psutil.Process(process.pid).status() == psutil.STATUS_SLEEPING, "it sleeps")
    assert watch.samples_until(lambda: watch.row(process.pid)["state"] == "S") == 1


def test_a_move_to_another_cgroup(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    process = watch.specimens.sleeper()
    watch.settle(process.pid)
    real = procfs.read_cgroup
    monkeypatch.setattr(procfs, "read_cgroup", lambda pid: "/moved" if pid == process.pid else real(pid))
    assert watch.samples_until(lambda: watch.row(process.pid)["cgroup"] == "/moved") <= ROTATION
