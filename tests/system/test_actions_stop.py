"""Stop: TERM to the main process alone, a bounded wait for all, and the truth about what is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.system.console_cli import Console
from tests.system.jobs import Jobs, compile_c, ended, said, wait_for

FAMILY = """
import os, signal, sys, time
told = sys.argv[1]
child = os.fork()
if child == 0:
    signal.signal(signal.SIGTERM, lambda *_: open(told, "a").write("TERM"))
    parent = os.getppid()
    print("on", flush=True)
    while os.getppid() == parent:
        time.sleep(0.02)
    os._exit(0)
signal.pause()
"""
"""The child writes down every SIGTERM it gets, and ends when its parent has."""

STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("on", flush=True)
while True:
    signal.pause()
"""

ORPHANING = """
import os, time
if os.fork() == 0:
    print("on", flush=True)
    time.sleep(3600)
time.sleep(3600)
"""

HEADLESS = r"""
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *live(void *unused) { (void)unused; puts("on"); fflush(stdout); for (;;) pause(); }
int main(void) { pthread_t thread; pthread_create(&thread, 0, live, 0); pthread_exit(0); }
"""
"""Its main thread ends and another lives on: /proc shows a zombie that is none."""


def test_only_the_main_process_gets_a_term(console: Console, jobs: Jobs, tmp_path: Path) -> None:
    told = tmp_path / "told"
    job = jobs.python(FAMILY, told, start_new_session=True)
    assert said(job) == "on"
    outcome = console.act("stop", job.pid)
    assert {t["sent"] for t in outcome["targets"] if t["pid"] == job.pid} == {"SIGTERM"}
    assert {t["sent"] for t in outcome["targets"] if t["pid"] != job.pid} == {None}
    assert all(t["verified"] for t in outcome["targets"])
    assert len(outcome["targets"]) == 2
    assert not told.exists()
    assert jobs.alive() == set()


def test_a_paused_tree_is_woken_after_its_term(console: Console, jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.python(FAMILY, tmp_path / "told", start_new_session=True)
    assert said(job) == "on"
    console.act("pause", job.pid)
    outcome = console.act("stop", job.pid)
    assert {t["sent"] for t in outcome["targets"]} == {"SIGTERM+SIGCONT", "SIGCONT"}
    assert jobs.alive() == set()


def test_what_ignores_a_term_is_named_and_then_killed(console: Console, jobs: Jobs) -> None:
    job = jobs.python(STUBBORN, start_new_session=True)
    assert said(job) == "on"
    outcome = console.act("stop", job.pid, "--grace", "0.5", code=4)
    assert [row["pid"] for row in outcome["left"]] == [job.pid]
    assert outcome["targets"][0]["state_after"] == "S"
    assert outcome["targets"][0]["reason"] == "still alive after 0.5 s"
    assert not ended(job.pid)
    assert console.act("kill", job.pid)["left"] == []
    assert ended(job.pid)


def test_children_that_outlive_the_main_process_are_left(console: Console, jobs: Jobs) -> None:
    job = jobs.python(ORPHANING, start_new_session=True)
    assert said(job) == "on"
    (child,) = jobs.alive() - {job.pid}
    outcome = console.act("stop", job.pid, "--grace", "0.5", code=4)
    by_pid = {t["pid"]: t for t in outcome["targets"]}
    assert by_pid[job.pid]["verified"]
    assert not by_pid[child]["verified"]
    assert [row["pid"] for row in outcome["left"]] == [child]
    only = console.act("kill", child, "--only")
    assert [t["pid"] for t in only["targets"]] == [child]


def test_a_zombie_counts_as_dead(console: Console, jobs: Jobs) -> None:
    job = jobs.sleeper(start_new_session=True)
    outcome = console.act("kill", job.pid)
    # Nobody has collected it: this test is its parent.
    assert psutil.Process(job.pid).status() == psutil.STATUS_ZOMBIE
    assert outcome["targets"][0]["state_after"] == "Z"
    assert outcome["targets"][0]["verified"]


def test_a_process_without_its_main_thread_is_not_dead(console: Console, jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.start([compile_c(tmp_path, "headless", HEADLESS)], start_new_session=True)
    assert said(job) == "on"
    wait_for(lambda: psutil.Process(job.pid).status() == psutil.STATUS_ZOMBIE, "its main thread has ended")
    paused = console.act("pause", job.pid)
    assert paused["targets"][0]["state_after"] == "T"
    assert {
        Path(f"/proc/{job.pid}/task/{t.id}/stat").read_text().split()[2] for t in psutil.Process(job.pid).threads()
    } <= {
        "T",
        "Z",
    }
    outcome = console.act("stop", job.pid)
    assert outcome["targets"][0]["verified"]
    assert job.wait(30) == -signal.SIGTERM


def test_a_child_ending_during_a_pause_is_no_failure(console: Console, jobs: Jobs) -> None:
    source = (
        "import subprocess, time\nprint('on', flush=True)\nwhile True: subprocess.run(['/bin/true']); time.sleep(0.01)"
    )
    job = jobs.python(source, start_new_session=True)
    assert said(job) == "on"
    for _ in range(3):
        outcome = console.act("pause", job.pid)
        assert next(t for t in outcome["targets"] if t["pid"] == job.pid)["state_after"] == "T"
        assert all(psutil.Process(pid).status() == psutil.STATUS_STOPPED for pid in jobs.alive())
        console.act("resume", job.pid)
    os.kill(job.pid, 0)


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_doing_it_twice_changes_nothing(console: Console, jobs: Jobs, action: str) -> None:
    job = jobs.sleeper(start_new_session=True)
    for _ in range(2):
        outcome = console.act(action, job.pid)
        assert outcome["targets"][0]["verified"]
    assert psutil.Process(job.pid).status() == (psutil.STATUS_STOPPED if action == "pause" else psutil.STATUS_SLEEPING)
