"""The agent's process table against psutil: every field of every process of this machine, and of odd ones."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from console.agent import procfs, procs
from console.agent.procs import ProcessTable
from tests.system.specimens import Specimens, key_of, stop, tell, wait_for

SECRET = b"s" * 16

STATES = {
    psutil.STATUS_RUNNING: "R",
    psutil.STATUS_SLEEPING: "S",
    psutil.STATUS_DISK_SLEEP: "D",
    psutil.STATUS_STOPPED: "T",
    psutil.STATUS_TRACING_STOP: "t",
    psutil.STATUS_ZOMBIE: "Z",
    psutil.STATUS_IDLE: "I",
}


@pytest.fixture
def specimens(tmp_path: Path) -> Iterator[Specimens]:
    made = Specimens(tmp_path)
    yield made
    made.end()


@pytest.fixture
def table() -> Iterator[ProcessTable]:
    made = ProcessTable(SECRET, argv_max=0)
    yield made
    made.close()


def expected(pid: int) -> dict[str, Any] | None:
    """Return the fields of a row that do not change by running alone, as psutil and the kernel tell them."""
    try:
        # A new one each time: psutil remembers what it has read.
        process = psutil.Process(pid)
        return {
            "pid": pid,
            "ppid": process.ppid(),
            "pgid": os.getpgid(pid),
            "session": os.getsid(pid),
            "uid": process.uids().real,
            "user": process.username(),
            "argv": process.cmdline(),
            # psutil completes a name that the kernel cut at 15 bytes.
            "comm": process.name()[:15],
            # It also strips what the kernel appends to the name of a deleted file.
            "exe": _exe(process),
            # Its clock of the boot is read at another moment: only the seconds can be the same.
            "started_at": process.create_time(),
        }
    except (psutil.NoSuchProcess, ProcessLookupError):
        return None


def _exe(process: psutil.Process) -> str | None:
    try:
        return process.exe() or None
    except psutil.AccessDenied:
        return None


def like_psutil(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's part that :func:`expected` has, spelled as psutil does."""
    names = ("pid", "ppid", "pgid", "session", "uid", "user", "argv", "started_at")
    exe = row["exe"].removesuffix(" (deleted)") if row["exe"] else None
    argv = row["argv"]
    if len(argv) == 1 and " " in argv[0]:
        # A title that a process gave itself; psutil splits it into words.
        argv = argv[0].split(" ")
    return {**{name: row[name] for name in names}, "argv": argv, "comm": row["comm"][:15], "exe": exe}


def row_of(table: ProcessTable, pid: int) -> dict[str, Any]:
    row = table.row(key_of(pid))
    assert row is not None
    return row


def sampled(table: ProcessTable, pid: int) -> dict[str, Any]:
    table.sample()
    return row_of(table, pid)


def test_the_whole_table_of_this_machine(table: ProcessTable) -> None:
    everyone = set(psutil.pids())
    compared = compare(table, everyone)
    assert compared >= {os.getpid(), os.getppid()} & everyone
    assert len(compared) >= len(everyone & set(psutil.pids())) * 0.8
    assert row_of(table, os.getpid())["cgroup"] == procfs.read_cgroup(os.getpid())


def compare(table: ProcessTable, pids: set[int]) -> set[int]:
    """Compare rows with psutil; return the pids that psutil read alike before and after the table did."""
    compared: set[int] = set()
    for _ in range(5):
        left = pids - compared
        before = {pid: expected(pid) for pid in left}
        table.sample()
        rows = {row["pid"]: dict(row) for row in table.rows()}
        for pid in left:
            after = expected(pid)
            if after is None or before[pid] != after or pid not in rows:
                continue
            if any("•" in arg for arg in rows[pid]["argv"]):
                after["argv"] = rows[pid]["argv"]
            if rows[pid]["kernel"]:
                # The kernel appends what its worker is about right now.
                after["comm"], rows[pid]["comm"] = (re.split("[-+]", c)[0] for c in (after["comm"], rows[pid]["comm"]))
            assert like_psutil(rows[pid]) == {**after, "started_at": pytest.approx(after["started_at"], abs=1.5)}
            compared.add(pid)
        if compared == pids:
            break
    return compared


def test_start_times_are_ticks_after_each_other(table: ProcessTable, specimens: Specimens) -> None:
    first, second = specimens.sleeper(), specimens.sleeper()
    table.sample()
    ticks = row_of(table, second.pid)["start_ticks"] - row_of(table, first.pid)["start_ticks"]
    created = psutil.Process(second.pid).create_time() - psutil.Process(first.pid).create_time()
    assert ticks / procfs.CLK_TCK == pytest.approx(created, abs=0.011)


def test_odd_argument_vectors_come_whole(table: ProcessTable, specimens: Specimens) -> None:
    args = [b"two\nlines", b"\xff\xfe", b"", b"x" * 100_000, "é•".encode(), b"\x1b[2J"]
    process = specimens.sleeper(*args)
    argv = sampled(table, process.pid)["argv"]
    assert [os.fsencode(arg) for arg in argv[3:]] == args
    assert argv == psutil.Process(process.pid).cmdline()
    assert not row_of(table, process.pid)["argv_cut"]


def test_a_long_vector_is_cut_and_says_so(specimens: Specimens) -> None:
    table = ProcessTable(SECRET, argv_max=300)
    process = specimens.sleeper("x" * 100, "y" * 100_000)
    row = sampled(table, process.pid)
    table.close()
    assert row["argv_cut"]
    assert len("\0".join(row["argv"])) == 300
    assert row["argv"][3] == "x" * 100


@pytest.mark.parametrize("name", [b"a) S 1 (b", b"two words", b"((()", b"line\nbreak", b"bad\xffname", b")"])
def test_odd_names_do_not_shift_the_fields(table: ProcessTable, specimens: Specimens, name: bytes) -> None:
    process = specimens.script(name)
    row = sampled(table, process.pid)
    assert os.fsencode(row["comm"]) == name
    assert row["state"] == "S"
    assert compare(table, {process.pid}) == {process.pid}


def test_states_threads_and_memory(table: ProcessTable, specimens: Specimens) -> None:
    zombie, stopped, threaded = specimens.zombie(), specimens.sleeper(), specimens.changer()
    stop(stopped.pid)
    tell(threaded, "threads 40")
    table.sample()
    for process, state in ((zombie, "Z"), (stopped, "T"), (threaded, "S")):
        found = psutil.Process(process.pid)
        wait_for(lambda p=found, s=state: STATES[p.status()] == s, f"{process.pid} is {state}")
        row = sampled(table, process.pid)
        assert row["state"] == state
        assert row["threads"] == found.num_threads()
        assert row["rss_bytes"] == pytest.approx(found.memory_info().rss, abs=1 << 20)
    row = row_of(table, threaded.pid)
    assert row["threads"] == 41
    assert row["rss_bytes"] > 4 << 20
    row = row_of(table, zombie.pid)
    assert (row["argv"], row["exe"], row["rss_bytes"]) == ([], None, 0)


def test_the_cpu_of_a_busy_process(table: ProcessTable, specimens: Specimens, monkeypatch: pytest.MonkeyPatch) -> None:
    process = specimens.start([sys.executable, "-c", "print(flush=True)\nwhile True: pass"])
    assert process.stdout and process.stdout.readline()
    busy = psutil.Process(process.pid)

    def reading() -> tuple[float, float]:
        return time.monotonic(), sum(busy.cpu_times()[:2])

    # The table reads somewhere between two readings of ours, at the beginning and at the end of the window.
    before_first = reading()
    assert sampled(table, process.pid)["cpu_percent"] is None, "no figure from one reading"
    after_first = reading()
    wait_for(lambda: reading()[1] - after_first[1] >= 0.5, "half a second of work")
    before_last = reading()
    table.sample()
    after_last = reading()
    least = 100.0 * (before_last[1] - after_first[1]) / (after_last[0] - before_first[0])
    most = 100.0 * (after_last[1] - before_first[1]) / (before_last[0] - after_first[0])
    assert least - 3.0 <= row_of(table, process.pid)["cpu_percent"] <= most + 3.0
    shown = row_of(table, process.pid)["cpu_percent"]
    monkeypatch.setattr(procs, "CPU_WINDOW_S", 3600.0)
    table.sample()
    assert row_of(table, process.pid)["cpu_percent"] == shown, "an action's extra reading is too short for a figure"


def test_processes_that_come_and_go_while_they_are_read(
    table: ProcessTable, specimens: Specimens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "go-on"
    flag.touch()
    storm = specimens.start(["/bin/sh", "-c", f"while [ -e '{flag}' ]; do {'(:) & ' * 30} wait; done"])
    vanished: list[int] = []
    real = ProcessTable._add

    def add(table: ProcessTable, pid: int) -> dict[str, Any] | None:
        row = real(table, pid)
        if row is None:
            vanished.append(pid)
        return row

    monkeypatch.setattr(ProcessTable, "_add", add)
    wait_for(lambda: table.sample() and len(vanished) >= 10, "ten vanish between the listing and the reading", 0.0)
    flag.unlink()
    assert storm.wait(60.0) == 0
    table.sample()
    rows = {row["pid"] for row in table.rows()}
    assert storm.pid not in rows
    assert rows >= {os.getpid(), os.getppid()}
    assert {kin.pid for kin in table.live.values()} == rows


def test_without_open_files_to_spare_it_reads_all_the_same(
    specimens: Specimens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(procs, "_raise_fd_limit", lambda: 66)
    table = ProcessTable(SECRET)
    process = specimens.sleeper("a")
    opened = len(os.listdir("/proc/self/fd"))
    assert sampled(table, process.pid)["argv"][3:] == ["a"]
    assert len(os.listdir("/proc/self/fd")) <= opened + 4
    stop(process.pid)
    assert sampled(table, process.pid)["state"] == "T"
    table.close()
