"""The demo's host, for real: its SSH server, its jobs, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import psutil
import pytest

from console.demo.bound import start_bound
from console.demo.state import DemoFolder

DEADLINE_S = 60.0


@dataclass
class RunningDemo:
    """A demo started as an operator would start it."""

    process: subprocess.Popen[str]
    folder: DemoFolder
    user: str
    port: int

    def connect(self, **options):
        """Connect as ssh would with the demo's ssh_config; ``options`` replace parts of that."""
        return asyncssh.connect(
            "127.0.0.1",
            self.port,
            **{
                "username": self.user,
                "client_keys": [str(self.folder.client_key)],
                "known_hosts": str(self.folder.known_hosts),
                "config": None,
                "agent_path": None,
                "encoding": None,
                **options,
            },
        )

    def all_processes(self) -> list[psutil.Process]:
        """The demo and everything it has started."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def job(self, script: str) -> psutil.Process:
        """The main process of one of the demo's jobs."""
        (main,) = (
            p
            for p in self.all_processes()
            if p.cmdline()[1:2] == [script] and "--worker" not in p.cmdline() and "--rank" not in p.cmdline()
        )
        return main


@contextlib.contextmanager
def started(tmp_path: Path) -> Iterator[RunningDemo]:
    # A machine where nothing may be written but the folder for temporary files.
    environment = {**os.environ, "HOME": "/nonexistent", "TMPDIR": str(tmp_path)}
    process = start_bound(
        [sys.executable, "-c", "import sys; from console.cli import main; sys.exit(main(['demo', '--no-ui']))"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        said = {}
        for line in process.stdout:
            words = line.split()
            if len(words) == 2:
                said[words[0]] = words[1]
            if line.startswith("Ctrl-C"):
                break
        user, _, port = said["host"].partition("@127.0.0.1:")
        yield RunningDemo(process, DemoFolder(Path(said["config"]).parent), user, int(port))
    finally:
        process.terminate()
        process.wait(DEADLINE_S)
        process.stdout.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[RunningDemo]:
    """One demo for the tests that leave it as it was."""
    with started(tmp_path_factory.mktemp("demo")) as demo:
        yield demo


@pytest.fixture
def own(tmp_path) -> Iterator[RunningDemo]:
    """A demo for one test that ends some of it."""
    with started(tmp_path) as demo:
        yield demo


def until(condition: Callable[[], object], what: str) -> object:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE_S:g} s: {what}")


async def run(connection: asyncssh.SSHClientConnection, command: str, **options):
    """Run ``command`` to its end, which must come."""
    return await asyncio.wait_for(connection.run(command, **options), DEADLINE_S)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    left = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                left.append(process)
    return left


async def test_a_command_runs_with_its_streams_and_its_exit_status(shared):
    async with shared.connect() as connection:
        result = await run(connection, "printf out; printf err >&2; exit 7")
        killed = await run(connection, "kill -KILL $$")
    assert (result.stdout, result.stderr, result.exit_status) == (b"out", b"err", 7)
    assert killed.exit_signal[0] == "KILL"


async def test_every_byte_passes_both_ways_and_end_of_input_arrives(shared):
    data = random.Random(7).randbytes(3_000_000)
    async with shared.connect() as connection:
        result = await run(connection, "cat", input=data)
    assert result.stdout == data


async def test_the_commands_home_is_in_the_state_folder(shared):
    async with shared.connect() as connection:
        result = await run(connection, 'printf %s "$HOME"')
    assert result.stdout == os.fsencode(shared.folder.home)


async def test_another_key_is_refused(shared):
    stranger = asyncssh.generate_private_key("ssh-ed25519")
    with pytest.raises(asyncssh.PermissionDenied):
        await shared.connect(client_keys=[stranger])


async def test_a_key_is_the_only_way_in(shared):
    methods = await asyncssh.get_server_auth_methods("127.0.0.1", shared.port, username=shared.user, config=None)
    assert methods == ["publickey"]


async def test_the_known_hosts_file_is_what_verifies_the_host(shared, tmp_path):
    key = asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode()
    other = tmp_path / "known_hosts"
    other.write_text(f"[127.0.0.1]:{shared.port} {key}")
    with pytest.raises(asyncssh.HostKeyNotVerifiable):
        await shared.connect(known_hosts=str(other))


async def test_forwarding_a_port_is_refused(shared):
    async with shared.connect() as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("127.0.0.1", shared.port)


def test_secrets_lie_in_a_private_folder_and_the_host_key_nowhere(shared):
    assert stat.S_IMODE(shared.folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(shared.folder.client_key.stat().st_mode) == 0o600
    holders = [p.name for p in shared.folder.path.iterdir() if p.is_file() and b"PRIVATE KEY" in p.read_bytes()]
    assert holders == [shared.folder.client_key.name]


def test_it_listens_on_loopback_alone(shared):
    sockets = {c.laddr for p in shared.all_processes() for c in p.net_connections() if c.status == psutil.CONN_LISTEN}
    assert sockets == {("127.0.0.1", shared.port)}


def test_the_job_computes_in_its_workers_and_records_what_it_found(shared):
    workers = shared.job("demo_generate.py").children()
    assert len(workers) == 3

    def spent() -> list[float]:
        return [w.cpu_times().user + w.cpu_times().system for w in workers]

    before = spent()
    until(lambda: all(b - a >= 0.05 for a, b in zip(before, spent(), strict=True)), "each worker computes")
    lines = until(lambda: shared.folder.records.exists() and shared.folder.records.read_text(), "a record")
    record = json.loads(lines.splitlines()[0])
    assert record["tokens"] == 8000
    assert len(record["sha256"]) == 64


def test_the_server_says_that_it_is_simulated_and_has_a_rank_on_each_gpu(shared):
    server = shared.job("demo_server.py")
    ranks = server.children()
    placed = {job["pid"]: job["gpu"] for job in json.loads(shared.folder.gpu_map.read_text())["jobs"]}
    assert all("--simulated" in process.cmdline() for process in [server, *ranks])
    assert placed == {rank.pid: int(rank.cmdline()[-1]) for rank in ranks}
    assert sorted(placed.values()) == list(range(8))


async def test_no_job_is_an_ancestor_of_a_command(shared):
    async with shared.connect() as connection:
        pid = int((await run(connection, "echo $PPID")).stdout)
    ancestors = {p.pid for p in [psutil.Process(pid), *psutil.Process(pid).parents()]}
    jobs = [shared.job("demo_generate.py"), shared.job("demo_server.py")]
    assert shared.process.pid in ancestors
    assert not ancestors & {p.pid for job in jobs for p in [job, *job.children()]}


async def test_a_command_sees_the_end_of_its_input_when_the_link_breaks(shared):
    ended = shared.folder.home / "ended"
    connection = await shared.connect()
    async with connection:
        process = await connection.create_process('echo ready; cat >/dev/null; : > "$HOME/ended"')
        assert await process.stdout.readline() == b"ready\n"
        connection.abort()
    until(ended.exists, "the command ended in its own way")


async def test_a_command_that_outlives_its_link_is_ended(own):
    connection = await own.connect()
    async with connection:
        process = await connection.create_process("echo $$; exec sleep 1000")
        command = psutil.Process(int(await process.stdout.readline()))
        connection.abort()
    await asyncio.to_thread(until, lambda: not alive([command]), "the command is gone")


def test_an_ended_rank_gives_its_memory_back_and_leaves_no_zombie(own):
    server = own.job("demo_server.py")
    rank = server.children()[0]
    rank.kill()
    until(
        lambda: rank.pid not in {job["pid"] for job in json.loads(own.folder.gpu_map.read_text())["jobs"]},
        "the rank's memory is off the map",
    )
    orphans = server.children()
    server.kill()
    until(lambda: not any(psutil.pid_exists(p.pid) for p in [server, *orphans]), "all of it is gone and reaped")
    assert own.process.poll() is None


def test_term_ends_the_job_even_with_a_stopped_worker(own):
    until(lambda: own.folder.records.exists() and '"worker": 1' in own.folder.records.read_text(), "a worker at work")
    job = own.job("demo_generate.py")
    workers = job.children()
    workers[1].suspend()
    job.terminate()
    until(lambda: not alive([job, *workers]), "the job and its workers are gone")
    assert own.process.poll() is None


def test_ctrl_c_ends_all_of_it(own):
    everything = own.all_processes()
    own.process.send_signal(signal.SIGINT)
    assert own.process.wait(DEADLINE_S) == 0
    assert alive(everything) == []
    assert not own.folder.path.exists()


async def test_nothing_survives_a_killed_console_not_even_what_was_stopped_or_ran_away(own):
    async with own.connect() as connection:
        result = await run(connection, "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!")
        away = psutil.Process(int(result.stdout))
        job = own.job("demo_generate.py")
        for process in [job, *job.children(), away]:
            process.suspend()
        everything = [*own.all_processes(), away]
        assert len(alive(everything)) == len(everything)
        own.process.kill()
    own.process.wait(DEADLINE_S)
    await asyncio.to_thread(until, lambda: not alive(everything), "all of it is gone")
    await asyncio.to_thread(until, lambda: not own.folder.path.exists(), "the state folder is gone")


def test_killing_the_supervisor_takes_its_jobs_along(own):
    supervisor = psutil.Process(own.process.pid).children()[0]
    job = own.job("demo_generate.py")
    for process in [job, *job.children()]:
        process.suspend()
    everything = own.all_processes()
    supervisor.kill()
    until(lambda: not alive(everything), "all of it is gone")
    assert own.process.wait(DEADLINE_S) == 5
    assert not own.folder.path.exists()


def test_a_demo_that_cannot_start_says_so_and_leaves_nothing(tmp_path):
    # No file may grow, as on a full disk.
    done = subprocess.run(
        ["/bin/sh", "-c", 'ulimit -f 0; exec "$@"', "sh", sys.executable, "-m", "console.cli", "demo", "--no-ui"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 5
    assert done.stderr.startswith("The demo cannot make its state folder: ")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_demo_whose_server_cannot_start_says_why_in_one_line(tmp_path):
    (tmp_path / "asyncssh.py").write_text("raise ImportError('asyncssh is broken here')")
    done = subprocess.run(
        [sys.executable, "-m", "console.cli", "demo", "--no-ui"],
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 5
    assert len(done.stderr.splitlines()) == 1
    assert "its SSH server ended at once" in done.stderr
    assert "asyncssh is broken here" in done.stderr
    assert list(tmp_path.glob("eagle3-demo-*")) == []
