"""One target of a running action: the handle that was verified, and what happened to it."""

from __future__ import annotations

import signal
import time
from typing import Any, Dict, List, Optional

from console.agent import pidfds, procfs
from console.agent.ancestry import Key
from console.agent.context import Context


class Member:
    """A process in the set of an action, held by pidfd from its check to its verification."""

    def __init__(self, context: Context, key: Key, started: float, added: bool = False) -> None:
        self._context = context
        self.key = key
        self.added = added
        self.handle: Optional[pidfds.Handle] = None
        self.argv: List[str] = []
        self.uid: Optional[int] = None
        self.sent: List[str] = []
        self.state_before: Optional[str] = None
        self.state_after: Optional[str] = None
        self.verified = False
        self.reason = ""
        self.ms: Optional[float] = None
        self._started = started

    def open(self, uid: Optional[int] = None, digest: Optional[str] = None) -> List[str]:
        """Open the pidfd, then compare with what was shown; return the differences.

        Raises:
            pidfds.Ended: there is no such process any more.
        """
        self.handle = pidfds.Handle(self.key[0])
        try:
            found = pidfds.differences(self.handle, self.key, uid, digest, self._context.secret)
        except pidfds.Ended:
            self.close()
            raise
        if not found:
            self.argv = self._context.shown_argv(procfs.read_cmdline(self.key[0]) or b"")
            credentials = procfs.read_credentials(self.key[0])
            self.uid = credentials.uid if credentials is not None else None
            self.state_before = pidfds.group_state(self.key)
        return found

    def ended(self) -> bool:
        """Return whether the process has ended; one that was never opened had."""
        return self.handle is None or self.handle.ended()

    def send(self, name: str) -> bool:
        """Send a signal by name on the verified handle; return whether the kernel took it, else set ``reason``."""
        if self.handle is None:
            return False
        try:
            self.handle.send(getattr(signal, name))
        except ProcessLookupError:
            return False
        except PermissionError:
            self.reason = "not permitted: it belongs to another user"
            return False
        except OSError as error:
            self.reason = "the kernel refused %s: %s" % (name, error.strerror or error)
            return False
        self.sent.append(name)
        return True

    def send_to_group(self, name: str) -> None:
        """Send a signal to the process group that it leads, if any: all of that belongs to the set with it."""
        if self.handle is not None:
            self.handle.send_to_group(getattr(signal, name))

    def verify(self, state: str, reason: str = "") -> None:
        """Note that the wanted effect was seen."""
        if not self.verified:
            self.verified = True
            self.ms = round((time.monotonic() - self._started) * 1e3, 1)
        self.state_after, self.reason = state, reason

    def verify_end(self) -> bool:
        """Note the end of the process if it has ended; a zombie has."""
        if not self.ended():
            return False
        # What has ended needs no handle any more: in a storm of forks thousands end while one action runs.
        self.close()
        state = pidfds.group_state(self.key)
        self.verify("Z" if state == "Z" else "gone", "waits for its parent to collect it" if state == "Z" else "")
        return True

    def unverified(self, reason: str) -> None:
        """Note that the wanted effect was not seen, with the state that was."""
        self.verified = False
        self.state_after = pidfds.group_state(self.key)
        self.reason = self.reason or reason

    def as_wire(self) -> Dict[str, Any]:
        """Return the member as in an outcome."""
        return {
            "pid": self.key[0],
            "start_ticks": self.key[1],
            "argv": self.argv,
            "uid": self.uid,
            "user": self._context.user(self.uid) if self.uid is not None else "",
            "sent": "+".join(self.sent) or None,
            "state_before": self.state_before,
            "state_after": self.state_after,
            "verified": self.verified,
            "reason": self.reason,
            "ms": self.ms,
            "added": self.added,
        }

    def close(self) -> None:
        """Let go of the process."""
        if self.handle is not None:
            self.handle.close()
