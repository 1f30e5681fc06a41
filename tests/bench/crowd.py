"""Two thousand real processes: asleep in sessions of fifty, thirty of them at work a little."""

from __future__ import annotations

import select
import shutil
import subprocess
import time
from pathlib import Path

import psutil

SOURCE = Path(__file__).with_name("crowd.c")
DEADLINE_S = 120.0

FAMILIES, MEMBERS, WORKERS = 40, 49, 30
SIZE = FAMILIES * (1 + MEMBERS)


def build_crowd(folder: Path) -> Path:
    """Compile the program and return it.

    Raises:
        RuntimeError: there is no C compiler, or it refuses the source.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("the measurements need a C compiler: install gcc")
    program = folder / "crowd"
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the crowd does not compile:\n{done.stderr}")
    return program


class Crowd:
    """The processes, from when all of them are there until :meth:`close`."""

    def __init__(self, program: Path) -> None:
        self._root = subprocess.Popen(
            [str(program), "root", str(FAMILIES), str(MEMBERS), str(WORKERS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            self._wait_for_all()
        except BaseException:
            self.close()
            raise

    def _wait_for_all(self) -> None:
        assert self._root.stdout is not None
        deadline, there = time.monotonic() + DEADLINE_S, 0
        while there < SIZE:
            left = deadline - time.monotonic()
            assert left > 0, f"only {there} of {SIZE} processes started; is a limit on processes in the way?"
            if select.select([self._root.stdout], [], [], left)[0]:
                dots = self._root.stdout.read1(4096)
                assert dots, f"the crowd ended after {there} of {SIZE} processes"
                there += len(dots)

    def leaders(self) -> list[int]:
        """Return the pids of the sessions' leaders."""
        return [child.pid for child in psutil.Process(self._root.pid).children()]

    def member(self) -> int:
        """Return the pid of one that leads nothing and has no children."""
        return psutil.Process(self.leaders()[0]).children()[-1].pid

    def close(self) -> None:
        """End all of them."""
        self._root.communicate()
