"""The real agent as a child process, spoken to line by line: for what no well-behaved console does to it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from console.agent import procfs, protocol
from console.host.bootstrap import BOOTSTRAP, build_bundle

DEADLINE_S = 60.0


class RawAgent:
    """Starts an agent; ``python`` are the words of the interpreter, ``env`` is added to the environment.

    ``reading`` False leaves its output unread from the start.
    """

    def __init__(
        self,
        *python: str,
        env: Mapping[str, str] | None = None,
        extra_modules: Mapping[str, str] | None = None,
        reading: bool = True,
    ) -> None:
        self.process = subprocess.Popen(
            [*(python or (sys.executable,)), "-u", "-c", BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        self.seen: list[dict[str, Any]] = []
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._number = 0
        self.write(build_bundle(extra_modules))
        self._thread = threading.Thread(target=self._read, daemon=True)
        if reading:
            self.resume_reading()

    @property
    def pid(self) -> int:
        return self.process.pid

    def resume_reading(self) -> None:
        """Begin to read the agent's output."""
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def write(self, data: bytes) -> None:
        """Write to the agent's input."""
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, op: str, **arguments: Any) -> int:
        """Send a request and return its number."""
        self._number += 1
        self.write(protocol.encode({"id": self._number, "op": op, **arguments}))
        return self._number

    def until(self, condition: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """Return the first message, of those not seen yet, that meets ``condition``."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            left = deadline - time.monotonic()
            assert left > 0, f"not in time: {what}"
            try:
                line = self._lines.get(timeout=left)
            except queue.Empty:
                continue
            assert line, f"the agent ended before: {what}; it said: {self.last_words()}"
            message = protocol.decode(line)
            self.seen.append(message)
            if condition(message):
                return message

    def event(self, name: str) -> dict[str, Any]:
        """Return the next event of this name."""
        return self.until(lambda message: message.get("ev") == name, f"event {name}")

    def answer(self, number: int) -> dict[str, Any]:
        """Return the answer to request ``number``."""
        return self.until(lambda message: message.get("id") == number, f"answer {number}")

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        """Return what the agent answers with ok."""
        message = self.answer(self.send(op, **arguments))
        assert "ok" in message, message
        ok: dict[str, Any] = message["ok"]
        return ok

    def start(self, **arguments: Any) -> None:
        """Begin to sample."""
        self.ask(protocol.START, **{"interval_s": 0.2, "operator": "tester@desk", **arguments})

    def plan(self, action: str, pid: int, scope: str = protocol.TREE) -> dict[str, Any]:
        """Return the plan of an action on ``pid``."""
        stat = procfs.read_stat(pid)
        assert stat is not None
        root = [procfs.boot_id(), pid, stat.start_ticks]
        return self.ask(protocol.PLAN, action=action, scope=scope, roots=[root], grace_s=45.0)

    def send_signal(self, plan: Mapping[str, Any], action_id: str = "a" * 16, grace_s: float = 45.0) -> int:
        """Send a plan to be carried out, and return the number of the request."""
        shown = [
            {"id": [t["boot_id"], t["pid"], t["start_ticks"]], "uid": t["uid"], "argv_digest": t["argv_digest"]}
            for t in plan["targets"]
        ]
        request = {"action": plan["action"], "scope": plan["scope"], "roots": plan["roots"], "targets": shown}
        return self.send(protocol.SIGNAL, action_id=action_id, grace_s=grace_s, **request)

    def end_input(self) -> int:
        """Close its input and return its exit status."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(DEADLINE_S)

    def last_words(self) -> str:
        """Return what it wrote on standard error once it has ended."""
        assert self.process.stderr
        self.process.kill()
        return self.process.stderr.read().decode(errors="replace")

    def close(self) -> None:
        """End it."""
        self.process.kill()
        if self._thread.is_alive():
            self._thread.join(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream
            try:
                stream.close()
            except BrokenPipeError:
                continue
        self.process.wait(DEADLINE_S)
