"""`eagle3-console` as an operator or a script runs it: a process of its own, its exit code, and what it prints."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from console.agent import procfs

DEADLINE_S = 120.0

COMMAND = (sys.executable, "-c", "import sys; from console.cli import main; sys.exit(main())")


@dataclass
class Console:
    """The command line for one host. ``home`` is the operator's; ``settings`` is the host's part of config.toml."""

    home: Path
    settings: dict[str, Any] = field(default_factory=lambda: {"address": "local"})
    host_home: Path | None = None
    """The home of the agent on the host, where it is another one than the operator's."""

    def __post_init__(self) -> None:
        folder = self.home / ".config/eagle3-console"
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{name} = {json.dumps(value)}" for name, value in self.settings.items()]
        (folder / "config.toml").write_text("\n".join(["[hosts.gpu1]", *lines, ""]))

    @property
    def environment(self) -> dict[str, str]:
        """The operator's environment."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("XDG_") and k != "SSH_AUTH_SOCK"}
        return {**kept, "HOME": str(self.home)}

    def argv(self, *words: Any) -> list[str]:
        """Return the whole command line."""
        return [*COMMAND, *map(str, words), "--host", "gpu1"]

    def run(self, *words: Any) -> subprocess.CompletedProcess[str]:
        """Run one command without a terminal."""
        return subprocess.run(
            self.argv(*words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    def json(self, *words: Any, code: int = 0) -> Any:
        """Run one command with --json and return what it prints; it must end with ``code``."""
        done = self.run(*words, "--json")
        assert done.returncode == code, f"exit {done.returncode}, not {code}: {done.stdout} {done.stderr}"
        return json.loads(done.stdout)

    def act(self, *words: Any, code: int = 0) -> dict[str, Any]:
        """Carry out an action and return its outcome; it must end with ``code``."""
        outcome: dict[str, Any] = self.json(*words, "--yes", code=code)
        assert outcome["ok"] is (code == 0), outcome
        return outcome

    def audit(self) -> list[dict[str, Any]]:
        """Return the records of the host's audit file, as the command prints them."""
        records: list[dict[str, Any]] = self.json("audit")["records"]
        return records

    def audit_file(self) -> Path:
        """Return where the agent keeps its audit file."""
        return (self.host_home or self.home) / ".local/state/eagle3-console/audit.jsonl"


class Terminal:
    """A command on a terminal of its own: what it shows is read, and answers are typed."""

    def __init__(self, argv: Sequence[str], environment: dict[str, str]) -> None:
        ours, its = pty.openpty()
        self._fd = ours
        self.shown = ""
        self.process = subprocess.Popen(
            argv, env=environment, stdin=its, stdout=its, stderr=its, start_new_session=True, close_fds=True
        )
        os.close(its)

    def read_until(self, text: str) -> str:
        """Return all that was shown, once ``text`` is among it."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.shown:
            assert time.monotonic() < deadline and self._read(0.2), f"never shown: {text!r}\n{self.shown}"
        return self.shown

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._fd, text.encode() + b"\n")

    def echoes(self) -> bool:
        """Return whether the terminal shows what is typed."""
        return bool(termios.tcgetattr(self._fd)[3] & termios.ECHO)

    def wait_for_echo(self, on: bool) -> None:
        """Return once what is typed is shown, or is not."""
        deadline = time.monotonic() + DEADLINE_S
        while self.echoes() is not on:
            assert time.monotonic() < deadline, "the terminal's echo does not change"
            time.sleep(0.01)

    def finish(self) -> int:
        """Read on to the end and return the exit code."""
        while self._read(DEADLINE_S):
            pass
        return self.process.wait(DEADLINE_S)

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()
        os.close(self._fd)

    def _read(self, timeout_s: float) -> bool:
        if not select.select([self._fd], [], [], timeout_s)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._fd, 65536)
        except OSError:
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


def identity_of(pid: int) -> tuple[str, int, int]:
    """Return the identity of a living process of this machine."""
    stat = procfs.read_stat(pid)
    assert stat is not None
    return (procfs.boot_id(), pid, stat.start_ticks)
