"""Writing lines to the console without ever letting a slow link hold up a signal."""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import Any, Dict, Optional

from console.agent import protocol

PROGRESS_QUEUED = 50
"""With more waiting lines than these the console does not read, and progress must not pile up for it."""


class Wire:
    """The agent's standard output. Lines are queued; one thread numbers and writes them in order."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._queue: "queue.SimpleQueue[Optional[Dict[str, Any]]]" = queue.SimpleQueue()
        self._seq = 0
        self.broken = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()

    def send(self, message: Dict[str, Any]) -> None:
        """Queue one message; returns at once. Progress of an action that piles up is dropped: later lines tell more."""
        if message.get("ev") == protocol.ACTION and self._queue.qsize() >= PROGRESS_QUEUED:
            return
        message["t"] = round(time.monotonic(), 3)
        self._queue.put(message)

    def backlog(self) -> int:
        """Return how many messages wait; a sampler holds its next reading back until there is none."""
        return self._queue.qsize()

    def close(self, timeout_s: float) -> None:
        """Write what is queued, at most for ``timeout_s``."""
        self._queue.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            message = self._queue.get()
            if message is None:
                return
            self._seq += 1
            message["seq"] = self._seq
            data = memoryview(protocol.encode(message))
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError:
                self.broken.set()
                return
