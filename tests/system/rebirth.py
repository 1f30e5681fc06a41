"""Making the kernel give the pid of an ended process to a new one: at once where that may be chosen.

Where it may not, a test runs again in a PID namespace of its own, of which an ordinary user may choose the pids too.
"""

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


def may_choose() -> bool:
    """Return whether the next pid can be chosen here."""
    try:
        LAST_PID.write_text(LAST_PID.read_text())
    except OSError:
        return False
    return True


def chooses_pids(test: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a test that lets a pid be reborn: where pids cannot be chosen it runs in a namespace where they can."""

    def elsewhere() -> bool:
        if may_choose() or INSIDE in os.environ or int(Path("/proc/sys/kernel/pid_max").read_text()) <= SMALL_PID_MAX:
            return False
        _run_in_namespace(os.environ["PYTEST_CURRENT_TEST"].split(" ")[0])
        return True

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


def _run_in_namespace(name: str) -> None:
    unshare = shutil.which("unshare")
    assert unshare, "pids cannot be chosen here and there is no `unshare` (util-linux): run the tests as root"
    user = [] if os.geteuid() == 0 else ["--user", "--map-current-user", "--keep-caps"]
    namespace = [unshare, *user, "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run(
        [*namespace, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name],
        env={**os.environ, INSIDE: "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, f"in a PID namespace of its own:\n{done.stdout}\n{done.stderr}"


class Reborn:
    """A newcomer under the pid of a process that ended."""

    def __init__(self, pid: int, argv: list[str], environment: dict[str, str] | None = None) -> None:
        """Start ``argv`` as ``pid``, which must be free or about to become so."""
        self.pid = pid
        deadline = time.monotonic() + DEADLINE_S
        choose = may_choose()
        while True:
            assert time.monotonic() < deadline, f"pid {pid} did not come again"
            if choose:
                before = LAST_PID.read_text()
                LAST_PID.write_text(str(pid - 1))
            child = os.fork()
            if child == 0:
                if os.getpid() == pid:
                    os.execvpe(argv[0], argv, {**os.environ, **(environment or {})})
                os._exit(0)
            if choose:
                # Whoever else runs here shall not be given the pids of the recently ended.
                LAST_PID.write_text(str(max(int(before), child)))
            if child == pid:
                break
            os.waitpid(child, 0)
        self.process = psutil.Process(pid)
        while self.process.cmdline() != argv:
            assert time.monotonic() < deadline, f"the newcomer {pid} does not start"
            time.sleep(0.005)

    def unharmed(self) -> bool:
        """Return whether it lives, and was not stopped."""
        return self.process.is_running() and self.process.status() in (psutil.STATUS_SLEEPING, psutil.STATUS_RUNNING)

    def end(self) -> None:
        """End it."""
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return
