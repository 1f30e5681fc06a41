"""Carrying out an action: open, compare, send on the same pidfd, verify; and again for what was born meanwhile.

The order of every signal is the design's: ``pidfd_open`` → read → compare with what the operator was shown → send on
that pidfd → verify. All targets are compared before the first signal, so an action is refused whole or begun.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from console.agent import pidfds, plans, procfs, protocol, vforks
from console.agent.ancestry import Ancestry, Key, choose_set
from console.agent.context import Context
from console.agent.members import Member
from console.agent.procs import cut_argv
from console.agent.scan import Scan

STOPPED_WITHIN_S = 5.0
"""A process that does not read T by then sleeps in the kernel."""

EXEC_WITHIN_S = 0.25
"""So long a child that holds up its parent in vfork may run on, each time."""

FREEZE_BEFORE_KILL_S = 1.0
ENDS_WITHIN_S = 10.0
"""SIGKILL ends everything but a process stuck in the kernel."""

MAX_GRACE_S = 86400

SHOWN_WHILE_RUNNING = 300
"""Characters of an argument vector in the events of a running action; its outcome has more."""

QUIET_READINGS = 10
"""After so many readings in a row without a new member, pids that vanish are taken for somebody else's."""

ROUNDS = 400
"""A set that still grows after so many rounds outruns us; it is said, not hidden."""


class Refusal(Exception):
    """Nothing was sent; the text says which field differed or what forbids it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Action:
    """One ``signal`` request from its checks to its outcome. Runs in a thread of its own.

    Raises:
        protocol.ProtocolError: the request is not complete.
    """

    def __init__(self, context: Context, request: Dict[str, Any]) -> None:
        self._context = context
        self._started = time.monotonic()
        self.action_id = str(request["action_id"])
        self.action = request["action"]
        self.scope = request["scope"]
        if self.action not in protocol.ACTIONS or self.scope not in protocol.SCOPES:
            raise protocol.ProtocolError("no such action or scope: %r, %r" % (self.action, self.scope))
        self._roots = [protocol.identity(root) for root in request["roots"]]
        self._shown = [(protocol.identity(t["id"]), int(t["uid"]), str(t["argv_digest"])) for t in request["targets"]]
        self.grace_s = float(request.get("grace_s", 45.0))
        if not 0 <= self.grace_s <= MAX_GRACE_S:
            raise protocol.ProtocolError("a grace of %r s is not between 0 and %d" % (self.grace_s, MAX_GRACE_S))
        self._members: Dict[Key, Member] = {}
        self._scan = Scan()
        self._ancestry: Ancestry = context.ancestry().copy()
        self._ended: Set[Key] = set()
        """What had ended when it was found in the set."""
        self._left: List[Dict[str, Any]] = []
        self._told = 0.0
        self._phase = "checking"
        self._quiet = 0
        self._settled = True
        """False when the last reading still found something new: then the set was not complete."""

    def run(self) -> Dict[str, Any]:
        """Carry the action out and return its outcome; the audit file has the intent before the first signal."""
        audit = ""
        try:
            self._check()
            audit = self._context.record({**self._record("intent"), "targets": self._wire_targets()})
            outcome = self._carry_out()
        except Refusal as refusal:
            self._phase = "refused"
            outcome = self._outcome(False, refusal=str(refusal), refusal_kind=refusal.kind)
        finally:
            for member in self._members.values():
                member.close()
        outcome["done"] = True
        outcome["audit"] = self._context.record({**self._record("result"), **outcome}) or audit
        return outcome

    def _check(self) -> None:
        if self._context.no_pidfd:
            raise Refusal("pidfd", "no signal is sent on this host: %s" % self._context.no_pidfd)
        if not self._shown:
            raise Refusal("identity", "the plan has no targets")
        roots = {(pid, start) for _, pid, start in self._roots}
        changed: List[str] = []
        digests = [digest for _, _, digest in self._shown]
        for (boot, pid, start), uid, digest in self._shown:
            if boot != self._context.boot_id:
                raise Refusal("identity", "the host was restarted since the plan was made")
            member = self._members[(pid, start)] = Member(self._context, (pid, start), self._started)
            if (pid, start) not in roots and digests.count(digest) > 1:
                # Shown with the arguments of the process that forked it: it had not reached its exec yet.
                expected: Optional[str] = None
            else:
                expected = digest
            try:
                changed += member.open(uid, expected)
            except pidfds.Ended:
                # An ended main process whose set lives on may still be killed; nothing else makes sense on it.
                if (pid, start) in roots and not (self.action == protocol.KILL and len(self._shown) > 1):
                    changed.append("%d has ended" % pid)
                member.verify("gone", "had ended before the action began")
            except OSError as error:
                raise Refusal("pidfd", "%d could not be held: %s" % (pid, error.strerror or error)) from None
        if changed:
            more = " and %d more" % (len(changed) - 3) if len(changed) > 3 else ""
            raise Refusal("identity", "%s%s" % ("; ".join(changed[:3]), more))
        self._check_rights()

    def _check_rights(self) -> None:
        rows = []
        for member in self._alive():
            stat = procfs.read_stat(member.key[0])
            comm = stat.comm if stat is not None else ""
            rows.append({"pid": member.key[0], "start_ticks": member.key[1], "argv": member.argv, "comm": comm})
        kind, text = plans.refuse(self._context, rows)
        if kind:
            raise Refusal(kind, "%s" % text)

    def _carry_out(self) -> Dict[str, Any]:
        before = self._gpu_bytes()
        self._phase = "sent"
        ways: Dict[str, Callable[[], None]] = {
            protocol.PAUSE: self._pause,
            protocol.RESUME: self._resume,
            protocol.STOP: self._stop,
            protocol.KILL: self._kill,
        }
        ways[self.action]()
        self._note_left()
        after = self._gpu_bytes_after(before)
        self._phase = "done"
        for member in self._members.values():
            if member.state_after == "Z":
                # Its parent may have collected it meanwhile.
                member.verify_end()
        ok = all(member.verified for member in self._members.values()) and self._settled
        return self._outcome(
            ok,
            note="" if self._settled else "processes are born into the set faster than they can be held: repeat it",
            gpu_bytes_before=before,
            gpu_bytes_after=after,
            gpu_holders=self._gpu_holders(before, after),
        )

    # pause, resume, stop, kill

    def _pause(self) -> None:
        by = self._context.operator or "?"
        self._context.pauses.expect(self._members, by, self.action_id)
        self._freeze(STOPPED_WITHIN_S)
        roots = {(pid, start) for _, pid, start in self._roots}
        stopped = []
        for member in self._members.values():
            if member.verified and member.state_after == "T":
                stopped.append(member.key)
            elif member.ended() and member.key in roots:
                member.unverified("ended before it could be stopped")
            elif not member.verified and not member.verify_end():
                member.unverified(_why_not_stopped(member.key))
        # From here on a wake-up that no console asked for is an alarm.
        self._context.pauses.begin(stopped, by, self.action_id, time.time())

    def _freeze(self, within_s: float) -> None:
        """Stop every member, then what they bore meanwhile, until all are stopped and a reading shows nothing new."""
        for member in self._alive():
            member.send("SIGSTOP")
            if self.scope == protocol.TREE:
                # A lineage that forks and exits faster than /proc is read cannot get out of a group.
                member.send_to_group("SIGSTOP")
        deadline = time.monotonic() + within_s
        pause_s = 0.0005
        for _ in range(ROUNDS):
            for member in self._members.values():
                if not member.verified:
                    member.verify_end()
            waiting = [m for m in self._alive() if not _stopped(m)]
            grown = self._adopt("SIGSTOP")
            self._tell()
            if not waiting and not grown:
                return
            if time.monotonic() > deadline:
                return
            # Before a kill it may as well stay: in vfork nobody forks, and SIGKILL reaches it there.
            if not grown and not (self.action == protocol.PAUSE and self._let_exec(waiting)):
                time.sleep(pause_s)
                pause_s = min(pause_s * 1.6, 0.05)

    def _let_exec(self, waiting: List[Member]) -> bool:
        """Let the stopped children run to their exec that hold up a parent in vfork; return whether there were any."""
        parents = [m.key[0] for m in waiting if vforks.waits_for_exec(m.key[0])]
        stopped = [m for m in self._alive() if parents and pidfds.group_state(m.key) == "T"]
        let_go: List[Member] = []
        for parent in parents:
            children = [m for m in stopped if _parent_of(m.key) == parent]
            early = vforks.before_exec(parent, [m.key[0] for m in children])
            let_go += [m for m in children if m.key[0] in early]
        for member in let_go:
            member.send("SIGCONT")
        deadline = time.monotonic() + EXEC_WITHIN_S
        while let_go and time.monotonic() < deadline and any(map(vforks.waits_for_exec, parents)):
            time.sleep(0.001)
        for member in let_go:
            member.send("SIGSTOP")
        return bool(let_go)

    def _resume(self) -> None:
        self._context.pauses.end(self._members)
        for member in self._alive():
            member.send("SIGCONT")
        self._wait(STOPPED_WITHIN_S, _running)
        for member in self._members.values():
            if not member.verified:
                member.unverified("still stopped: a debugger holds it, or it reads its terminal in the background")

    def _stop(self) -> None:
        roots = [self._members[(pid, start)] for _, pid, start in self._roots if (pid, start) in self._members]
        allowed = [root for root in roots if root.send("SIGTERM")]
        if allowed:
            # TERM to a stopped process stays pending until CONT; without a TERM no CONT: nothing may wake it then.
            self._context.pauses.end(self._members)
            for member in self._alive():
                if member.state_before in ("T", "t"):
                    member.send("SIGCONT")
            self._phase = "waiting"
            self._wait(self.grace_s, Member.verify_end, adopt=self.scope == protocol.TREE)
        for member in self._members.values():
            if not member.verified:
                member.unverified(self._why_alive(bool(allowed)))

    def _why_alive(self, signalled: bool) -> str:
        if not signalled:
            return "not signalled"
        if self._context.closing.is_set():
            return "still alive when the console went away"
        return "still alive after %g s" % self.grace_s

    def _kill(self) -> None:
        self._context.pauses.end(self._members)
        if self.scope == protocol.TREE:
            # What is stopped cannot fork: the set is complete before the first one dies and its children are
            # re-parented.
            self._freeze(FREEZE_BEFORE_KILL_S)
            for member in self._alive():
                member.verified, member.ms = False, None
        for member in self._alive():
            member.send("SIGKILL")
        self._phase = "waiting"
        self._wait(ENDS_WITHIN_S, Member.verify_end, adopt=self.scope == protocol.TREE, send="SIGKILL")
        for member in self._members.values():
            if not member.verified:
                member.unverified(
                    "SIGKILL is pending: it is stuck in the kernel (a driver, a dead disk): needs host action"
                )

    # the set

    def _adopt(self, send: Optional[str]) -> bool:
        """Take in what was born into the set since the last reading, and send it ``send`` if given.

        Returns whether something may still move. A lineage that forks and exits faster than it is read shows only as
        pids that were gone before they could be; so do processes that are none of ours, hence the patience with these.
        """
        if self.scope == protocol.ONLY:
            return False
        live = self._scan.refresh()
        self._ancestry.observe(live)
        # Members that ended are members still: their children and sessions belong to the set.
        grown = 0
        protected = self._context.protected()
        for key in choose_set(list(self._members), live, self._ancestry):
            if key in self._members or key in protected:
                continue
            member = Member(self._context, key, self._started, added=True)
            try:
                if member.open():
                    member.close()
                    continue
            except pidfds.Ended:
                # New when first seen: it may have borne others. A paused parent does not collect it, so it stays.
                grown += key not in self._ended
                self._ended.add(key)
                continue
            except OSError:
                grown += 1
                continue
            self._members[key] = member
            grown += 1
            if send:
                member.send(send)
                member.send_to_group(send)
        self._quiet = 0 if grown else self._quiet + 1
        self._settled = self._quiet >= (QUIET_READINGS if self._scan.vanished else 1)
        return not self._settled

    def _alive(self) -> List[Member]:
        return [member for member in self._members.values() if not member.ended()]

    def _wait(
        self, within_s: float, done: Callable[[Member], bool], adopt: bool = False, send: Optional[str] = None
    ) -> None:
        """Wait until ``done`` holds for every member, growing the set if ``adopt``; ends early when closing."""
        deadline = time.monotonic() + within_s
        pause_s, next_scan = 0.001, 0.0
        while True:
            waiting = [m for m in self._members.values() if not m.verified and not done(m)]
            now = time.monotonic()
            if adopt and (not waiting or now >= next_scan):
                next_scan = now + (0.02 if send else 0.5)
                if self._adopt(send) and now < deadline:
                    continue
            self._tell()
            if not waiting or now >= deadline or self._context.closing.is_set():
                return
            time.sleep(min(pause_s, max(0.0, deadline - now)))
            pause_s = min(pause_s * 1.5, 0.1)

    def _note_left(self) -> None:
        """Note the members that still live although they were to end."""
        if self.action not in (protocol.STOP, protocol.KILL):
            return
        for member in self._alive():
            row = self._context.describe(member.key, "left of the set")
            if row is not None:
                self._left.append(row)

    # GPU memory

    def _gpu_bytes(self) -> Optional[int]:
        memory = self._context.gpu_memory()
        return None if memory is None else sum(size for key, size in memory.items() if key in self._members)

    def _gpu_bytes_after(self, before: Optional[int]) -> Optional[int]:
        gpus = self._context.gpus
        if before is None or gpus is None:
            return self._gpu_bytes()
        ends = self.action in (protocol.STOP, protocol.KILL)
        deadline = time.monotonic() + (ENDS_WITHIN_S if ends and before and not self._left else 0.0)
        after = self._gpu_bytes()
        while ends and before and after and time.monotonic() < deadline and not self._context.closing.is_set():
            gpus.wait_fresh(time.monotonic(), 2.0)
            after = self._gpu_bytes()
            self._tell()
        return after

    def _gpu_holders(self, before: Optional[int], after: Optional[int]) -> List[str]:
        if self.action not in (protocol.STOP, protocol.KILL):
            return []
        memory = self._context.gpu_memory() or {}
        held = ["%d still holds %.1f GiB" % (key[0], memory[key] / 2**30) for key in self._members if memory.get(key)]
        alive = [row["pid"] for row in self._left]
        held += [
            "%d has an NVIDIA device open" % pid for pid in sorted(self._context.device_holders(alive)) if pid in alive
        ]
        if before and not after:
            held += _unexplained_memory(self._context)
        return held

    # telling

    def _tell(self, force: bool = False) -> None:
        now = time.monotonic()
        gap = 0.1 if len(self._members) <= 50 else 1.0
        if force or now - self._told >= gap:
            self._told = now
            event = self._outcome(False)
            for row in event["targets"]:
                row["argv"] = cut_argv(row["argv"], SHOWN_WHILE_RUNNING)
            self._context.emit({"ev": protocol.ACTION, **event})

    def _wire_targets(self) -> List[Dict[str, Any]]:
        return [member.as_wire() for member in self._members.values()]

    def _outcome(self, ok: bool, **more: Any) -> Dict[str, Any]:
        return {
            "action_id": self.action_id,
            "op": self.action,
            "ok": ok,
            "done": False,
            "phase": self._phase,
            "targets": self._wire_targets(),
            "left": self._left,
            "elapsed_s": round(time.monotonic() - self._started, 3),
            "grace_s": self.grace_s if self.action == protocol.STOP else ENDS_WITHIN_S,
            **more,
        }

    def _record(self, kind: str) -> Dict[str, Any]:
        return {
            "record": kind,
            "action_id": self.action_id,
            "action": self.action,
            "op": self.action,
            "scope": self.scope,
            "roots": [list(root) for root in self._roots],
            "grace_s": self.grace_s,
        }


def _stopped(member: Member) -> bool:
    state = pidfds.group_state(member.key)
    if state == "T":
        member.verify("T")
        return True
    member.verified = False
    return member.verify_end()


def _parent_of(key: Key) -> int:
    stat = procfs.read_stat(key[0])
    return stat.ppid if stat is not None and stat.start_ticks == key[1] else 0


def _running(member: Member) -> bool:
    state = pidfds.group_state(member.key)
    if state not in "Tt" and state not in ("gone", "Z"):
        member.verify(state)
        return True
    return member.verify_end()


def _why_not_stopped(key: Key) -> str:
    credentials = procfs.read_credentials(key[0])
    state = pidfds.group_state(key)
    if state == "t" and credentials is not None:
        return "held by debugger %d, which decides when it stops" % credentials.tracer_pid
    if state == "D":
        return "in uninterruptible sleep: it stops when the kernel lets go"
    return "not stopped within %g s" % STOPPED_WITHIN_S


def _unexplained_memory(context: Context) -> List[str]:
    """Return GPUs with much memory in use that no process is listed for: an orphan may hold it."""
    gpus: Sequence[Dict[str, Any]] = context.gpus.snapshot()["gpus"] if context.gpus is not None else ()
    found = []
    for gpu in gpus:
        used, processes = gpu.get("memory_used_bytes"), gpu.get("processes")
        if used is None or processes is None or any(p.get("memory_bytes") is None for p in processes):
            continue
        rest = used - sum(p["memory_bytes"] for p in processes)
        if rest > 4 * 2**30:
            found.append("GPU %d: %.1f GiB in use that no process is listed for" % (gpu["index"], rest / 2**30))
    return found
