"""Jobs of a test: processes known by a mark in their environment, however far they ran from their parent."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from console.agent import procfs

DEADLINE_S = 60.0
"""For anything that should take far less: a busy machine must not fail a test."""

MARK = "EAGLE3_TEST_JOB"


class Jobs:
    """Starts processes that carry one mark; :meth:`end` ends all that carry it. The mark knows no parent and no group,
    so it tells who belongs to a job without the ways by which the agent finds that out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self._started: list[subprocess.Popen[str]] = []

    def start(self, argv: Sequence[Any], **options: Any) -> subprocess.Popen[str]:
        """Start ``argv`` with pipes on standard input and output; ``env`` of ``options`` is added to ours."""
        environment = {**os.environ, MARK: self.mark, **options.pop("env", {})}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, **options}
        process = subprocess.Popen(list(argv), env=environment, **pipes)
        self._started.append(process)
        return process

    def script(self, source: str, name: str = "job.py") -> Path:
        """Write a Python program and return its path."""
        path = self.folder / name
        path.write_text(source)
        return path

    def python(self, source: str, *arguments: Any, name: str = "job.py", **options: Any) -> subprocess.Popen[str]:
        """Start a Python program from a file called ``name``."""
        return self.start([sys.executable, self.script(source, name), *map(str, arguments)], **options)

    def sleeper(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start a process that waits for its input, with ``arguments`` behind; returns once it waits."""
        process = self.start(["/bin/sh", "-c", "echo on; read x", *arguments], **options)
        assert said(process) == "on"
        return process

    def alive(self) -> set[int]:
        """Return the pids of all that carry the mark and have not ended."""
        wanted = f"{MARK}={self.mark}".encode()
        found = set()
        for name in os.listdir("/proc"):
            if name.isdigit():
                with contextlib.suppress(OSError):
                    if wanted in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                        found.add(int(name))
        return found

    def end(self) -> None:
        """End all of them."""
        for process in self._started:
            if process.poll() is None and os.getpgid(process.pid) == process.pid:
                # All at once: what forks without end is faster than any list of it.
                os.killpg(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + DEADLINE_S
        while marked := self.alive():
            for pid in marked:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert time.monotonic() < deadline, f"{marked} do not end"
            time.sleep(0.01)
        for process in self._started:
            # Not read to their end: what a test acts on may hold the other ends of a bystander's pipes.
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
            process.wait(DEADLINE_S)


def compile_c(folder: Path, name: str, source: str) -> Path:
    """Compile a C program and return its path."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None, "these tests need a C compiler: install gcc"
    path, code = folder / name, folder / f"{name}.c"
    code.write_text(source)
    subprocess.run(
        [compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-o", str(path), str(code), "-lpthread"], check=True
    )
    return path


def said(process: subprocess.Popen[str]) -> str:
    """Return the next line that a job prints."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def told(process: subprocess.Popen[str]) -> dict[str, int]:
    """Return the pids that a job prints as one JSON line."""
    pids: dict[str, int] = json.loads(said(process))
    return pids


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Return the first true value of ``condition``; fail with ``what`` after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.01)
    return value


def start_ticks(pid: int) -> int:
    """Return field 22 of a living process's stat."""
    stat = procfs.read_stat(pid)
    assert stat is not None, f"{pid} is gone"
    return stat.start_ticks


def states(pids: set[int]) -> dict[int, set[str]]:
    """Return pid → the state letters of all its threads, from the lines for humans; for those that live."""
    found: dict[int, set[str]] = {}
    for pid in pids:
        # Threads come and go, and so do processes.
        with contextlib.suppress(OSError):
            for tid in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    text = Path(f"/proc/{pid}/task/{tid}/status").read_text(errors="replace")
                    line = next(line for line in text.splitlines() if line.startswith("State:"))
                    found.setdefault(pid, set()).add(line.split()[1])
    return found


def all_stopped(pids: set[int]) -> bool:
    """Return whether every thread of every one of ``pids`` is stopped; psutil agrees on the processes."""
    return bool(pids) and all(
        letters == {"T"} and psutil.Process(pid).status() == psutil.STATUS_STOPPED
        for pid, letters in states(pids).items()
    )


def ended(pid: int) -> bool:
    """Return whether a process is gone or a zombie, as psutil sees it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
