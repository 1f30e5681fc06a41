"""A program on a terminal of 160 × 50 cells that nobody looks at: all it writes is read, so that it never waits."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping, Sequence

COLUMNS, ROWS = 160, 50
TAIL_CHARS = 200_000

_CONTROL = re.compile(r"\x1b(\[[0-9;?<>=]*[A-Za-z~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")


class PseudoTerminal:
    """One program and what it shows. ``written`` counts the bytes of its output."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self._ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.written = 0
        self._shown = ""
        self._grown = threading.Condition()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            argv,
            env={**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"},
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """What was written last, without control sequences."""
        with self._grown:
            return _CONTROL.sub("", self._shown)

    def seconds_until(self, marker: str, deadline_s: float) -> float:
        """Return the seconds from the start until ``marker`` was written."""
        with self._grown:
            while marker not in _CONTROL.sub("", self._shown):
                left = self.began + deadline_s - time.monotonic()
                assert left > 0, f"not shown within {deadline_s:g} s: {marker!r}; last: {self._shown[-2000:]!r}"
                assert not self._ended.is_set(), f"ended before it showed {marker!r}: {self._shown[-2000:]!r}"
                self._grown.wait(left)
            return time.monotonic() - self.began

    def close(self) -> None:
        """End the program."""
        for push in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(push)
                try:
                    self.process.wait(5.0)
                except subprocess.TimeoutExpired:
                    continue
        self._ended.set()
        self._thread.join()
        os.close(self._ours)

    def _read(self) -> None:
        while not self._ended.is_set():
            if not select.select([self._ours], [], [], 0.5)[0]:
                continue
            try:
                data = os.read(self._ours, 65536)
            except OSError:
                data = b""
            with self._grown:
                self.written += len(data)
                self._shown = (self._shown + data.decode(errors="replace"))[-TAIL_CHARS:]
                if not data:
                    self._ended.set()
                self._grown.notify_all()
