"""Making the kernel give the pid of an ended process to a new one, where no other test can get hurt by that."""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

DEADLINE_S = 120.0
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
SMALL_PID_MAX = 40_000
"""So many pids can be gone through one by one."""

INSIDE = "EAGLE3_TESTS_IN_PID_NAMESPACE"


def in_own_pids(test: Callable[..., Any]) -> Callable[..., Any]:
    """Run a test in a PID namespace of its own: one that chooses pids, or uses them up by the thousand.

    An ordinary user may make one too. Where nobody may, the test runs where it is, if pids can be chosen there.
    """

    def elsewhere() -> bool:
        if INSIDE in os.environ:
            return False
        namespace = _namespace()
        if namespace:
            _run_in(namespace, os.environ["PYTEST_CURRENT_TEST"].split(" ")[0])
            return True
        assert may_choose() or int(Path("/proc/sys/kernel/pid_max").read_text()) <= SMALL_PID_MAX, (
            "this test needs PID namespaces, or to choose pids, or a small kernel.pid_max: run it as root"
        )
        return False

    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def run(*arguments: Any, **named: Any) -> None:
            if not elsewhere():
                await test(*arguments, **named)
    else:

        @functools.wraps(test)
        def run(*arguments: Any, **named: Any) -> None:
            if not elsewhere():
                test(*arguments, **named)

    return run


def may_choose() -> bool:
    """Return whether the next pid can be chosen here."""
    try:
        LAST_PID.write_text(LAST_PID.read_text())
    except OSError:
        return False
    return True


@functools.cache
def _namespace() -> tuple[str, ...]:
    """Return the command that runs another one in a PID namespace of its own; () where that is not possible."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return ()
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    # The shell is the namespace's first process, and collects the orphans.
    command = (unshare, *user, "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh")
    works = subprocess.run([*command, "true"], stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
    return command if works else ()


def _run_in(namespace: tuple[str, ...], name: str) -> None:
    done = subprocess.run(
        [*namespace, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
        env={**os.environ, INSIDE: "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"in a PID namespace of its own:\n{done.stdout}\n{done.stderr}"


class Reborn:
    """A newcomer under the pid of a process that ended."""

    def __init__(self, pid: int, argv: list[str]) -> None:
        """Start ``argv`` as ``pid``, which must be free or about to become so."""
        self.pid = pid
        deadline = time.monotonic() + DEADLINE_S
        choose = may_choose()
        while True:
            assert time.monotonic() < deadline, f"pid {pid} did not come again"
            if choose:
                LAST_PID.write_text(str(pid - 1))
            child = os.fork()
            if child == 0:
                if os.getpid() == pid:
                    os.execvp(argv[0], argv)
                os._exit(0)
            if child == pid:
                break
            os.waitpid(child, 0)
        self.process = psutil.Process(pid)
        while self.process.cmdline() != argv:
            assert time.monotonic() < deadline, f"the newcomer {pid} does not start"
            time.sleep(0.005)

    def unharmed(self) -> bool:
        """Return whether it lives, and was not stopped."""
        harmed = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return self.process.is_running() and self.process.status() not in harmed

    def end(self) -> None:
        """End it."""
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return
