"""Processes with known traits, made for a test and ended with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from console.agent import procfs

DEADLINE_S = 60.0

FORKER = """
import ctypes, mmap, os, signal, sys
words = sys.stdin
area = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
where = ctypes.addressof(ctypes.c_char.from_buffer(area))
child = os.fork()
if child == 0:
    while True:
        signal.pause()
print(child, where, flush=True)
for line in words:
    what = line.split()
    if what[0] == "setpgid":
        os.setpgid(child, child)
    elif what[0] == "grow":
        # Pages of the child come to be without the child's running.
        with open("/proc/%d/mem" % child, "r+b", buffering=0) as memory:
            for page in range(0, 4 << 20, 4096):
                memory.seek(where + page)
                memory.write(b"x")
    print("done", flush=True)
"""
"""A parent that changes its sleeping child from outside."""

SELF_CHANGER = """
import ctypes, os, sys
for line in sys.stdin:
    what, _, value = line.rstrip("\\n").partition(" ")
    if what == "title":
        with open("/proc/self/stat", "rb") as file:
            start, end = map(int, file.read().rsplit(b")", 1)[1].split()[45:47])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(value.encode().ljust(end - start, b"\\0"))
    elif what == "comm":
        with open("/proc/self/comm", "w") as file:
            file.write(value)
    elif what == "exec":
        os.execv(sys.executable, [sys.executable, "-c", "input()", value])
    elif what == "setsid":
        os.setsid()
    elif what == "threads":
        import threading
        gate = threading.Event()
        for _ in range(int(value)):
            threading.Thread(target=gate.wait, daemon=True).start()
    elif what == "uid":
        os.setuid(int(value))
    print("done", flush=True)
"""
"""A process that changes itself and then sleeps again."""


class Specimens:
    """Starts processes; :meth:`end` ends every one, and everything that they bore."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[str]] = []
        self._others: list[psutil.Process] = []

    def start(self, argv: list[Any], **options: Any) -> subprocess.Popen[str]:
        """Start ``argv`` with pipes on standard input and output."""
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self._started.append(process)
        return process

    def sleeper(self, *args: Any, name: str | bytes = "sh", **options: Any) -> subprocess.Popen[str]:
        """Start a shell that waits for its input, with ``args`` behind its script; returns when it waits."""
        process = self.start([name, "-c", "echo on; read x", *args], executable="/bin/sh", **options)
        assert process.stdout and process.stdout.readline() == "on\n"
        return process

    def script(self, name: bytes) -> subprocess.Popen[str]:
        """Start an executable file called ``name``, so that its comm is that."""
        path = os.path.join(os.fsencode(self._folder), name)
        with open(path, "wb") as file:
            file.write(b"#!/bin/sh\necho on; read x\n")
        os.chmod(path, 0o755)
        process = self.start([path])
        assert process.stdout and process.stdout.readline() == "on\n"
        return process

    def zombie(self) -> subprocess.Popen[str]:
        """Start a process that ends and is not collected."""
        process = self.start(["/bin/sh", "-c", "exit 0"])
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    def changer(self, *args: str) -> subprocess.Popen[str]:
        """Start a process that changes itself on :func:`tell`."""
        return self.start([sys.executable, "-c", SELF_CHANGER, *args])

    def forker(self) -> tuple[subprocess.Popen[str], int]:
        """Start a parent that changes its child on :func:`tell`; return it and the child's pid."""
        process = self.start([sys.executable, "-c", FORKER])
        assert process.stdout
        child = int(process.stdout.readline().split()[0])
        self._others.append(psutil.Process(child))
        return process, child

    def adopt(self, pid: int) -> None:
        """End ``pid`` too, a process that one of ours bore."""
        self._others.append(psutil.Process(pid))

    def end(self) -> None:
        """End all of them."""
        for process in self._started:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._others += psutil.Process(process.pid).children(recursive=True)
        for process in self._started:
            process.kill()
        for other in self._others:
            with contextlib.suppress(psutil.NoSuchProcess):
                other.kill()
        # Only now: what they bore holds their pipes open.
        for process in self._started:
            process.communicate()


def tell(process: subprocess.Popen[str], words: str, answers: bool = True) -> None:
    """Give a changer or a forker its word, and wait until it has done so."""
    assert process.stdin and process.stdout
    process.stdin.write(words + "\n")
    process.stdin.flush()
    if answers:
        assert process.stdout.readline() == "done\n"


def key_of(pid: int) -> tuple[int, int]:
    """Return (pid, start_ticks) of a living process."""
    stat = procfs.read_stat(pid)
    assert stat is not None
    return (pid, stat.start_ticks)


def wait_for(condition: Callable[[], Any], what: str, pause_s: float = 0.02) -> Any:
    """Return the first true value of ``condition``; fail with ``what`` after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(pause_s)
    return value


def stop(pid: int) -> None:
    """Stop a process and wait until it reads T."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, f"{pid} is stopped")
