"""The rhythm of the agent: once a second the processes, GPUs, gauges and pauses, each as an event when it changed."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, FrozenSet, List, Optional

from console.agent import procfs, protocol
from console.agent.ancestry import Key
from console.agent.context import Context
from console.agent.gauges import Gauges
from console.agent.procs import ProcessTable
from console.agent.wire import Wire

GLANCE_S = 0.25
"""How often the state of paused processes is looked at between samples."""

CHUNK = 400
"""Rows of the first full list in one line: the console shows the first before the last was read."""


class Sampler:
    """Samples in a thread of its own and sends what changed."""

    def __init__(self, context: Context, wire: Wire, table: ProcessTable, gauges: Gauges, interval_s: float) -> None:
        self._context = context
        self._wire = wire
        self._table = table
        self._gauges = gauges
        self._interval_s = interval_s
        self._first = True
        self._sent: Dict[str, Any] = {}
        self._began: Optional[float] = None
        self._stop = threading.Event()
        self.now = threading.Event()

    def start(self) -> None:
        """Begin, with a watch over the sampling itself."""
        threading.Thread(target=self._run, name="sampler", daemon=True).start()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def stop(self) -> None:
        """End after the current sample."""
        self._stop.set()
        self.now.set()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            # With a slow link deltas are taken less often; each is against what was sent last, so none is lost.
            if self._wire.backlog() == 0:
                self._began = time.monotonic()
                self._guarded("processes", self._processes)
                self._guarded("gpus", self._gpus)
                self._guarded("gauges", self._host)
                self._began = None
            due = max(due + self._interval_s, time.monotonic())
            self._rest(due)
            if self.now.is_set():
                self.now.clear()
                due = time.monotonic()

    def _rest(self, due: float) -> None:
        """Wait until ``due`` or until a sample is wanted now, with an eye on what was paused: its waking is news."""
        while not self.now.wait(max(0.0, min(GLANCE_S, due - time.monotonic()))) and time.monotonic() < due:
            if self._context.pauses.woken():
                return

    def _watch(self) -> None:
        """Say when a reading of /proc hangs: a process stuck in the kernel can hold up whoever reads its arguments."""
        while not self._stop.wait(1.0):
            began = self._began
            hangs = began is not None and time.monotonic() - began > 5.0
            self._fault(
                "processes hang", "reading /proc has not come back for over 5 s: the list is old" if hangs else ""
            )

    def _guarded(self, part: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # one part that fails must not end the others
            self._fault(part, "%s: %s" % (type(error).__name__, error))
        else:
            self._fault(part, "")

    def _fault(self, part: str, text: str) -> None:
        if self._sent.get("fault " + part, "") != text:
            self._sent["fault " + part] = text
            self._wire.send({"ev": protocol.FAULT, "part": part, "text": text})

    def _processes(self) -> None:
        try:
            self._read_processes()
        except Exception:
            # What was read and not sent would be missing for ever: begin again with a full list.
            self._table.close()
            self._first = True
            raise

    def _read_processes(self) -> None:
        tracked = frozenset(self._context.pauses.tracked())
        if self._first:
            # The console shows the first rows before the last ones are read.
            rest = self._table.sample(self._send_rows, CHUNK)
            self._send_rows(rest["added"], complete=True)
        else:
            # Sent even when nothing changed: its coming is what tells fresh from stale.
            delta = self._table.sample()
            self._wire.send({"ev": protocol.PROCS, **{k: v for k, v in delta.items() if v}, **_clocks()})
        self._pauses(time.time(), tracked)

    def _send_rows(self, rows: List[Dict[str, Any]], complete: bool = False) -> None:
        event = {"ev": protocol.PROCS, "reset": self._first, "complete": complete, "added": rows}
        self._first = False
        self._wire.send({**event, **_clocks()})

    def _pauses(self, wall: float, tracked: FrozenSet[Key]) -> None:
        rows = [row for row in self._table.rows() if row["state"] in "Tt"]
        rows += [row for row in map(self._table.row, tracked) if row is not None]
        states = {
            (row["pid"], row["start_ticks"]): (row["state"], protocol.command_line(row["argv"], row["comm"])[:80])
            for row in rows
        }
        current, alerts = self._context.pauses.check(states, wall, tracked)
        if current is not None:
            self._wire.send({"ev": protocol.PAUSES, "pauses": current})
        for alert in alerts:
            self._wire.send({"ev": protocol.ALERT, **alert})

    def _gpus(self) -> None:
        if self._context.gpus is not None:
            self._send_changed(protocol.GPUS, self._context.gpus.snapshot())

    def _host(self) -> None:
        sample = self._gauges.snapshot()
        if sample:
            self._send_changed(protocol.GAUGES, sample)

    def _send_changed(self, name: str, body: Dict[str, Any]) -> None:
        if self._sent.get(name) != body:
            self._sent[name] = body
            self._wire.send({"ev": name, **body})


def _clocks() -> Dict[str, float]:
    return {"uptime_s": procfs.uptime_s(), "wall": round(time.time(), 3)}
