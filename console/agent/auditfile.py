"""The append-only record of every action on this host: what was meant, before the first signal, and what came of it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from typing import Any, Dict, List, Optional, Tuple

TAIL_BYTES = 4 * 1024 * 1024
"""How far back from the end records are looked for."""


def default_path() -> str:
    """Return ``~/.local/state/eagle3-console/audit.jsonl``."""
    return os.path.join(os.path.expanduser("~"), ".local", "state", "eagle3-console", "audit.jsonl")


class AuditFile:
    """One JSONL file, appended under a lock and fsynced; half a record never stays in front of the next one."""

    def __init__(self, path: str) -> None:
        self.path = path

    def append(self, record: Dict[str, Any]) -> str:
        """Write one record durably and return "", or a sentence that says why it is not on the disk."""
        try:
            self._append(json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n")
        except OSError as error:
            return "the audit record could not be written to %s: %s" % (self.path, error.strerror or error)
        return ""

    def writable(self) -> str:
        """Return "" when a record could be appended now, or why not; writes nothing."""
        folder = os.path.dirname(self.path)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                stat = os.fstatvfs(fd)
                if stat.f_bavail == 0 and stat.f_blocks:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(fd)
        except OSError as error:
            return "the audit file %s cannot be written: %s" % (self.path, error.strerror or error)
        return ""

    def tail(self, limit: int) -> Tuple[List[Dict[str, Any]], int]:
        """Return the last ``limit`` records, oldest first, and how many lines among them were torn.

        Raises:
            OSError: the file is there and cannot be read.
        """
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return [], 0
        with os.fdopen(fd, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            lines = file.read().split(b"\n")
        if size > TAIL_BYTES:
            lines = lines[1:]
        records: List[Dict[str, Any]] = []
        torn = 0
        for line in lines:
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                torn += 1
                continue
            if isinstance(record, dict):
                records.append(record)
            else:
                torn += 1
        return records[-limit:], torn

    def fate(self, action_id: str) -> Optional[Dict[str, Any]]:
        """Return the last record of ``action_id`` (its result, else its intent), or None when it never got here.

        Raises:
            OSError: the file is there and cannot be read.
        """
        found: Optional[Dict[str, Any]] = None
        for record in self.tail(1 << 30)[0]:
            if record.get("action_id") == action_id:
                found = record
        return found

    def _append(self, line: bytes) -> None:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                # Somebody died in the middle of a record; it stays readable as one torn line of its own.
                line = b"\n" + line
            try:
                written = 0
                while written < len(line):
                    written += os.write(fd, line[written:])
                os.fsync(fd)
            except OSError:
                os.ftruncate(fd, size)
                raise
        finally:
            os.close(fd)
