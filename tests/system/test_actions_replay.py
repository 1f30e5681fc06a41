"""The old failure, replayed: a job, a command line that only mentions it, and an action that must tell them apart."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import psutil

from tests.system.console_cli import Console
from tests.system.jobs import Jobs, ended, said, start_ticks, wait_for
from tests.system.sshd import SshdServer

INFERENCE = """
import time
print("ready", flush=True)
while True:
    time.sleep(0.05)
"""

PS_KEYS = {
    "pid": int,
    "ppid": int,
    "start_ticks": int,
    "boot_id": str,
    "uid": int,
    "user": str,
    "state": str,
    "rss_bytes": int,
    "cpu_percent": (int, float, type(None)),
    "gpu_bytes": (int, type(None)),
    "age_s": (int, float),
    "argv": list,
    "session": int,
    "pgid": int,
}

TARGET_KEYS = {"pid", "start_ticks", "argv", "sent", "state_before", "state_after", "verified", "reason"}


def started(jobs: Jobs, name: str, *arguments: str) -> subprocess.Popen[str]:
    """Start `python3 NAME ARGUMENTS…` in the folder of the jobs."""
    jobs.script(INFERENCE, name)
    process = jobs.start(["python3", name, *arguments], executable=sys.executable, cwd=jobs.folder)
    assert said(process) == "ready"
    return process


def test_a_job_is_listed_alone_and_stopped_for_sure(
    over_ssh: Console, sshd: SshdServer, jobs: Jobs, bystanders: Jobs
) -> None:
    # Other tests and other people may run a run_inference.py too.
    name = f"run_inference_{secrets.token_hex(4)}"
    argv = ["python3", f"{name}.py", "--partition", "all", "--out", "/data/généré 1"]
    job = started(jobs, *argv[1:])

    (listed,) = over_ssh.json("ps", name)
    assert listed["pid"] == job.pid
    assert listed["argv"] == argv
    assert not listed["ours"]

    # A script's shell has the text in its own command line, and so has the shell that sshd starts for it.
    script = f'"$@" ps {name} --json --host gpu1 | cat; : {name}'
    wrapped = subprocess.run(
        ["sh", "-c", script, f"sh-{name}", *over_ssh.argv()[:-2]],
        env=over_ssh.environment,
        capture_output=True,
        text=True,
    )
    assert f'"pid": {job.pid}' in wrapped.stdout
    assert wrapped.stdout.count('"pid":') == 1, wrapped.stdout

    # What broke the old way: a command line on the host that names the job, here in the middle of the operator's work.
    old = f"kill -0 {job.pid}; pgrep -fa {name}; echo on; read x"
    wrapper = bystanders.start(["bash", "-c", old, "bash"])
    remote = bystanders.start(ssh(sshd, over_ssh, f"echo on; bash -c 'read x; : {name}'"))
    for bystander in (wrapper, remote):
        assert bystander.stdout is not None
        wait_for(lambda b=bystander: said(b) == "on", "the bystander runs")
    mentioned = {row["pid"] for row in over_ssh.json("ps", name)}
    assert {job.pid, wrapper.pid} < mentioned, "a filter narrows what is shown, by text alone"

    others = {pid: start_ticks(pid) for pid in mentioned - {job.pid}}
    assert len(others) >= 3, "the bystander, the shell that sshd started, and its child"
    outcome = over_ssh.act("stop", job.pid, "--start-ticks", listed["start_ticks"])
    (target,) = outcome["targets"]
    assert (target["pid"], target["sent"], target["state_after"]) == (job.pid, "SIGTERM", "Z")
    assert (outcome["op"], outcome["phase"], outcome["left"]) == ("stop", "done", [])
    assert ended(job.pid)
    assert job.wait() == -15
    # Nobody that only mentions it was touched, and nobody that only mentions it is taken for it.
    assert {pid: start_ticks(pid) for pid in others} == others
    assert all(psutil.Process(pid).status() != psutil.STATUS_STOPPED for pid in others)
    assert {row["pid"] for row in over_ssh.json("ps", name)} == set(others)
    refused = over_ssh.act("stop", job.pid, "--start-ticks", listed["start_ticks"], code=3)
    assert "has ended" in refused["refusal"] or "another process" in refused["refusal"]


def ssh(sshd: SshdServer, console: Console, command: str) -> list[str]:
    """Return how the real ssh runs ``command`` on the host."""
    options = ["-p", str(sshd.port), "-i", str(sshd.client_key_path), "-F", "none", "-o", "BatchMode=yes"]
    known = ["-o", f"UserKnownHostsFile={console.home / '.ssh/known_hosts'}"]
    return ["ssh", *options, *known, f"{sshd.user}@127.0.0.1", command]


def test_the_shape_of_ps(console: Console, jobs: Jobs) -> None:
    strange = [b"\xff\xfe.bin", "naïve ☃ \u202e".encode(), b"two\nlines", b"", b'quote"\\', "e\u0301".encode()]
    job = jobs.start([b"/bin/sh", b"-c", b"echo on; read x", b"sh", *strange])
    assert said(job) == "on"
    rows = console.json("ps")
    for row in rows:
        for key, kind in PS_KEYS.items():
            assert isinstance(row[key], kind), (key, row)
        assert all(isinstance(argument, str) for argument in row["argv"])
    (row,) = (row for row in rows if row["pid"] == job.pid)
    given = [argument.encode("utf-8", "surrogateescape") for argument in row["argv"]]
    assert given == [b"/bin/sh", b"-c", b"echo on; read x", b"sh", *strange]
    oracle = psutil.Process(job.pid)
    assert (row["ppid"], row["uid"], row["user"]) == (oracle.ppid(), oracle.uids().real, oracle.username())
    assert (row["state"], row["gpu_bytes"]) == ("S", None)
    assert row["start_ticks"] == start_ticks(job.pid)
    assert (row["boot_id"], row["pgid"]) == (boot_id(), os.getpgid(job.pid))


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_the_shape_of_an_outcome(console: Console, jobs: Jobs) -> None:
    job = jobs.sleeper("\udcff\udcfe", "ü")
    outcome = console.act("kill", job.pid)
    assert set(outcome) >= {"action_id", "op", "ok", "targets", "gpu_bytes_before", "gpu_bytes_after"}
    assert isinstance(outcome["action_id"], str) and len(outcome["action_id"]) >= 8
    assert (outcome["op"], outcome["gpu_bytes_before"], outcome["gpu_bytes_after"]) == ("kill", None, None)
    (target,) = outcome["targets"]
    assert set(target) >= TARGET_KEYS
    assert target["argv"] == ["/bin/sh", "-c", "echo on; read x", "\udcff\udcfe", "ü"]
    assert (target["start_ticks"], target["state_before"]) == (start_ticks(job.pid), "S")
    assert target["sent"] == "SIGSTOP+SIGKILL"
    assert target["verified"] is True
    # Who reads the host's file finds the same action.
    records = [r for r in console.audit() if r["action_id"] == outcome["action_id"]]
    assert [record["record"] for record in records] == ["intent", "result"]
    assert [t["pid"] for t in records[1]["targets"]] == [job.pid]
    assert console.audit_file().is_file()


def test_bad_input_is_told_from_a_refusal(here: Console, jobs: Jobs) -> None:
    job = jobs.sleeper()
    assert here.run("kill", job.pid).returncode == 2, "without a terminal --yes is needed"
    for words in (("0",), ("-1",), ("x",), (job.pid, "--only", "--tree"), (job.pid, "--start-ticks", "1.5"), ()):
        done = here.run("kill", *words, "--yes")
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "Traceback" not in done.stderr
    assert here.run("stop", job.pid, "--grace", "nan", "--yes").returncode == 2
    assert not ended(job.pid)
    assert not here.audit_file().exists()


def test_no_link_is_exit_code_5(over_ssh: Console, sshd: SshdServer, jobs: Jobs) -> None:
    job = jobs.sleeper()
    sshd.stop()
    done = over_ssh.run("kill", job.pid, "--yes", "--json")
    assert (done.returncode, done.stdout) == (5, "")
    assert len(done.stderr.splitlines()) == 1
    assert not ended(job.pid)
