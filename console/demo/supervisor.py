"""Holds everything of one demo and ends all of it: the SSH server, the jobs, and whatever they started.

``python -m console.demo.supervisor`` makes the state folder, prints one JSON line when all is up, and waits. When its
standard input ends, and it does however the console ended, it kills what is left by SIGKILL, which a stopped process
cannot put off either, and removes the folder.

It is an ancestor of the agent, so the agent refuses to touch it; the jobs are ancestors of nothing of ours and can be
targets.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from console.demo import gpus
from console.demo.bound import JOB_FOLDER, adopt_orphans, job, job_path, kill_descendants, module, reap, start_bound
from console.demo.state import DemoFolder, user_name

START_WITHIN_S = 60.0
SERVER_END_WITHIN_S = 3.0
KILL_WITHIN_S = 10.0


def main() -> int:
    """Run one demo until standard input ends; return the exit code."""
    adopt_orphans()
    try:
        folder = DemoFolder.make()
    except OSError as error:
        text = f"The demo cannot make its state folder: {error.strerror or error}. Set TMPDIR to a folder with space."
        print(json.dumps({"error": text}), flush=True)
        return 1
    try:
        return run(folder)
    except (OSError, ValueError) as error:
        print(json.dumps({"error": f"The demo could not start: {error}{last_words(folder)}."}), flush=True)
        return 1
    finally:
        end_everything()
        shutil.rmtree(folder.path, ignore_errors=True)


def run(folder: DemoFolder) -> int:
    """Start the server and the jobs in ``folder``, say so, and keep the GPU map true until standard input ends."""
    simulated = not gpus.has_driver()
    with folder.log.open("ab") as log:
        # The terminal belongs to the console's screen.
        os.dup2(log.fileno(), 2)
        server = start_bound(
            module("console.demo.server", str(folder.path)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=host_environment(folder, simulated),
            start_new_session=True,
        )
        ranks = start_jobs(folder, log.fileno())
    port = json.loads(first_line(server, "its SSH server"))["port"]
    gpus.write_map(folder.gpu_map, ranks)
    folder.write_ssh_config(user_name(), port)
    folder.write_config(sys.executable, simulated)
    ready = {"folder": str(folder.path), "user": user_name(), "port": port, "simulated_gpus": simulated}
    print(json.dumps(ready), flush=True)

    watch(folder, ranks)
    assert server.stdin is not None
    server.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(SERVER_END_WITHIN_S)
    return 0


def start_jobs(folder: DemoFolder, log: int) -> dict[int, int]:
    """Start the computing job and the simulated server; return pid → GPU of the server's ranks."""
    common: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stderr": log,
        "cwd": JOB_FOLDER,
        "env": job_environment(),
        "start_new_session": True,
    }
    generate = job("demo_generate.py", "--workers", "3", "--output", str(folder.records))
    start_bound(generate, stdout=subprocess.DEVNULL, **common)
    serve = job("demo_server.py", "--simulated", "--ranks", str(gpus.GPUS))
    server = start_bound(serve, stdout=subprocess.PIPE, **common)
    return {pid: gpu for gpu, pid in enumerate(json.loads(first_line(server, "its simulated model server")))}


def watch(folder: DemoFolder, ranks: dict[int, int]) -> None:
    """Until standard input ends: reap what ended, and take the memory of an ended rank off the GPU map at once."""
    with selectors.DefaultSelector() as selector:
        child_ended = wake_on_child()
        selector.register(0, selectors.EVENT_READ)
        selector.register(child_ended, selectors.EVENT_READ)
        for pid in ranks:
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, data=pid)
        # A child may have ended before the first wake-up was possible.
        reap()
        while True:
            for key, _ in selector.select():
                if key.data is not None:
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    del ranks[key.data]
                    gpus.write_map(folder.gpu_map, ranks)
                elif not os.read(key.fd, 4096):
                    return
            reap()


def wake_on_child() -> int:
    """Return a file descriptor that is readable whenever a child has ended, so that none stays a zombie for long."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)
    return reader


def end_everything() -> None:
    """Kill and reap all descendants, those born meanwhile too."""
    deadline = time.monotonic() + KILL_WITHIN_S
    while kill_descendants() and time.monotonic() < deadline:
        reap()
        time.sleep(0.02)
    reap()


def host_environment(folder: DemoFolder, simulated_gpus: bool) -> dict[str, str]:
    """Return what commands on the demo's host find: little, as over SSH, and a HOME of their own."""
    environment = {**job_environment(), "HOME": str(folder.home), "USER": user_name(), "LOGNAME": user_name()}
    if simulated_gpus:
        environment[gpus.ENVIRONMENT] = str(folder.gpu_map)
    return environment


def job_environment() -> dict[str, str]:
    """Return the few variables that a process needs here; nothing secret of the operator's shell gets in."""
    keep = ("LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH")
    return {"PATH": job_path(), **{name: os.environ[name] for name in keep if name in os.environ}}


def first_line(process: subprocess.Popen[bytes], name: str) -> str:
    """Return the first line that ``process`` prints.

    Raises:
        OSError: it ended or printed nothing in time.
    """
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(START_WITHIN_S):
            raise OSError(f"{name} said nothing for {START_WITHIN_S:g} s")
    line = process.stdout.readline()
    if not line:
        raise OSError(f"{name} ended at once")
    return line.decode()


def last_words(folder: DemoFolder) -> str:
    """Return the last line of the log in parentheses, where an exception names itself; empty when there is none."""
    with contextlib.suppress(OSError):
        lines = folder.log.read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return f" ({said[-1]})" if said else ""
    return ""


if __name__ == "__main__":
    sys.exit(main())
