"""The agent: reads requests from standard input, answers and reports on standard output, ends when its input does.

Nothing is installed and nothing stays on the host but the audit file. Requests run in threads of their own, so a
hanging driver or disk never holds up a signal.
"""

from __future__ import annotations

import os
import pwd
import signal
import socket
import sys
import threading
import time
from typing import Any, BinaryIO, Callable, Dict, Optional, Set

from console.agent import auditfile, detail, plans, procfs, protocol
from console.agent.ancestry import Ancestry, Key
from console.agent.context import Context
from console.agent.gauges import Gauges
from console.agent.gpus import GpuSampler
from console.agent.procs import ProcessTable
from console.agent.sampler import Sampler
from console.agent.signals import Action
from console.agent.wire import Wire

LAST_WORDS_S = 5.0
"""So long the agent waits, once its input has ended, for actions to note their outcome in the audit file."""


def main() -> None:
    """Run one conversation and end the process, hung threads included."""
    for number in (signal.SIGHUP, signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # A stray print of a library must not become part of the conversation.
    out = os.dup(1)
    os.dup2(2, 1)
    Agent(sys.stdin.buffer, Wire(out)).serve()
    os._exit(0)


class Agent:
    """One conversation with one console."""

    def __init__(self, requests: BinaryIO, wire: Wire) -> None:
        self._requests = requests
        self._wire = wire
        self._context = Context(auditfile.AuditFile(auditfile.default_path()), wire.send)
        self._table: Optional[ProcessTable] = None
        self._sampler: Optional[Sampler] = None
        self._gpus: Optional[GpuSampler] = None
        self._acting: Set[threading.Thread] = set()
        self._under_way: Set[str] = set()
        self._ops: Dict[str, Callable[[Dict[str, Any]], Dict[str, Any]]] = {
            protocol.START: self._start,
            protocol.PLAN: self._plan,
            protocol.SIGNAL: self._signal,
            protocol.FATE: self._fate,
            protocol.DETAIL: self._detail,
            protocol.AUDIT: self._audit,
        }

    def serve(self) -> None:
        """Say hello and answer until the input ends."""
        self._wire.send(self._hello())
        while not self._wire.broken.is_set():
            line = self._requests.readline(protocol.MAX_LINE_BYTES)
            if not line:
                break
            try:
                request = protocol.decode(line)
            except protocol.ProtocolError as error:
                self._wire.send({"ev": protocol.FAULT, "part": "request", "text": str(error)})
                continue
            self._take(request)
        self._end()

    def _take(self, request: Dict[str, Any]) -> None:
        if request.get("op") == protocol.PING:
            self._wire.send({"id": request.get("id"), "ok": {}})
            return
        if request.get("op") == protocol.SIGNAL:
            # Noted before any later request is read: its fate is never "nothing was sent" while it runs.
            self._under_way.add(str(request.get("action_id")))
        thread = threading.Thread(target=self._answer, args=(request,), daemon=True, name=str(request.get("op")))
        if request.get("op") == protocol.SIGNAL:
            self._acting = {t for t in self._acting if t.is_alive()} | {thread}
        thread.start()

    def _answer(self, request: Dict[str, Any]) -> None:
        number, op = request.get("id"), request.get("op")
        handler = self._ops.get(str(op))
        try:
            if handler is None:
                raise protocol.ProtocolError("this agent has no request %r" % (op,))
            self._wire.send({"id": number, "ok": handler(request)})
        except detail.NotThere as error:
            self._error(number, protocol.NOT_FOUND, str(error))
        except (protocol.ProtocolError, KeyError, TypeError, ValueError) as error:
            self._error(number, protocol.BAD_REQUEST, "%s: %s" % (op, error))
        except Exception as error:  # told to the operator; the conversation goes on
            self._error(number, protocol.INTERNAL, "%s failed: %s: %s" % (op, type(error).__name__, error))

    def _error(self, number: Any, kind: str, text: str) -> None:
        self._wire.send({"id": number, "error": {"kind": kind, "text": text}})

    def _end(self) -> None:
        self._context.closing.set()
        if self._sampler is not None:
            self._sampler.stop()
        deadline = time.monotonic() + LAST_WORDS_S
        for thread in self._acting:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._wire.close(0.5)

    def _hello(self) -> Dict[str, Any]:
        stat = procfs.read_stat(os.getpid())
        return {
            "ev": protocol.HELLO,
            "version": protocol.VERSION,
            "hostname": socket.gethostname(),
            "boot_id": self._context.boot_id,
            "uid": os.getuid(),
            "user": _own_name(),
            "python": sys.version.split()[0],
            "kernel": os.uname().release,
            "clk_tck": procfs.CLK_TCK,
            "pid": os.getpid(),
            "start_ticks": stat.start_ticks if stat is not None else 0,
            "audit_path": self._context.audit.path,
            "can": {**_abilities(self._context.no_pidfd), "audit": self._context.audit.writable() or True},
        }

    def _start(self, request: Dict[str, Any]) -> Dict[str, Any]:
        if self._sampler is not None:
            raise protocol.ProtocolError("sampling has begun already")
        interval_s = min(60.0, max(0.2, float(request.get("interval_s", 1.0))))
        chain = _chain(request, self._context.boot_id)
        self._context.start(str(request.get("operator", "")), int(request.get("argv_max", 4096)), chain)
        self._table = ProcessTable(self._context.secret, int(request.get("argv_max", 4096)), self._context.protected)
        self._gpus = GpuSampler(interval_s, self._start_ticks_of)
        self._context.gpus = self._gpus
        self._context.ancestry = self._known_ancestry
        gauges = Gauges([str(path) for path in request.get("disks", ())], interval_s)
        self._sampler = Sampler(self._context, self._wire, self._table, gauges, interval_s)
        self._sampler.start()
        self._gpus.start()
        gauges.start()
        return {}

    def _start_ticks_of(self, pid: int) -> Optional[int]:
        stat = procfs.read_stat(pid)
        return stat.start_ticks if stat is not None else None

    def _known_ancestry(self) -> Ancestry:
        return self._table.ancestry if self._table is not None else Ancestry()

    def _plan(self, request: Dict[str, Any]) -> Dict[str, Any]:
        action, scope = request["action"], request["scope"]
        if action not in protocol.ACTIONS or scope not in protocol.SCOPES:
            raise protocol.ProtocolError("no such action or scope: %r, %r" % (action, scope))
        return plans.make_plan(self._context, action, scope, [protocol.identity(root) for root in request["roots"]])

    def _signal(self, request: Dict[str, Any]) -> Dict[str, Any]:
        try:
            outcome = Action(self._context, request).run()
        finally:
            self._under_way.discard(str(request.get("action_id")))
        if self._sampler is not None:
            self._sampler.now.set()
        return outcome

    def _fate(self, request: Dict[str, Any]) -> Dict[str, Any]:
        action_id = str(request["action_id"])
        running = action_id in self._under_way
        record = self._context.audit.fate(action_id)
        if record is None and running:
            record = {"record": "intent", "action_id": action_id, "op": "", "targets": []}
        if record is not None and record.get("record") == "intent":
            record = {**record, "phase": "unknown", "ok": False}
        return {"outcome": record}

    def _detail(self, request: Dict[str, Any]) -> Dict[str, Any]:
        return detail.read_detail(self._context, protocol.identity(request["process"]))

    def _audit(self, request: Dict[str, Any]) -> Dict[str, Any]:
        path, limit = self._context.audit.path, max(1, int(request.get("limit", 500)))
        try:
            records, torn = self._context.audit.tail(limit)
        except OSError as error:
            return {"path": path, "records": [], "torn": 0, "error": error.strerror or str(error)}
        return {"path": path, "records": records, "torn": torn, "error": None}


def _chain(request: Dict[str, Any], boot_id: str) -> Set[Key]:
    """Return the console and its ancestors when it runs on this very machine, in the same PID namespace."""
    try:
        same = request.get("pid_namespace") == os.readlink("/proc/self/ns/pid")
    except OSError:
        same = False
    if not same:
        return set()
    identities = [protocol.identity(item) for item in request.get("console_chain", ())]
    return {(pid, start) for boot, pid, start in identities if boot == boot_id}


def _abilities(no_pidfd: str) -> Dict[str, Any]:
    """Return what works on this host: True, or a sentence that says why not. NVML answers later, as an event."""
    return {
        "pidfd": no_pidfd or True,
        "cgroup2": os.path.exists("/sys/fs/cgroup/cgroup.controllers") or "cgroup v2 is not mounted at /sys/fs/cgroup",
        "systemd": os.path.isdir("/run/systemd/system") or "systemd does not run here",
    }


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
