"""DashboardScreen: one host: link, figures, alerts, GPUs, processes. Keys become requests; it sends no signal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.reactive import var
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer, Label

from console.agent import protocol
from console.agent.protocol import Identity
from console.host.alert_lines import alert_lines, open_alerts
from console.host.state import HostState
from console.host.thresholds import Thresholds
from console.link_protocol import Link
from console.screens.dashboard_bindings import DASHBOARD_BINDINGS
from console.screens.dashboard_titles import empty_text, tree_subtitle, tree_title
from console.widgets.filter_bar import FilterBar
from console.widgets.gpu_panel import GpuPanel
from console.widgets.host_bar import HostBar
from console.widgets.lines_view import LinesView
from console.widgets.link_banner import LinkBanner
from console.widgets.process_tree import ProcessTree
from console.widgets.snapshot import Snapshot
from console.widgets.titles import titled

PERIOD_S = 1.0
"""Shortest time between two repaints for new data, and longest between two of the clock."""

SETTLE_S = 0.05
"""Events of one sample arrive together; the repaint waits for the last of them."""

_DATA_EVENTS = frozenset(
    {protocol.PROCS, protocol.GPUS, protocol.GAUGES, protocol.PAUSES, protocol.ALERT, protocol.FAULT, protocol.HELLO}
)


class DashboardScreen(Screen[None]):
    """Shows frozen snapshots of a link and posts what the operator asks for."""

    CSS_PATH = Path(__file__).with_name("dashboard.tcss")
    HORIZONTAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar[list[tuple[int, str]] | None] = [(0, "-short"), (30, "-tall")]
    AUTO_FOCUS = "#tree"
    BINDINGS: ClassVar[list[BindingType]] = DASHBOARD_BINDINGS

    snapshot: var[Snapshot | None] = var(None, init=False)

    class SnapshotTaken(Message):
        """The link was read; a later snapshot replaces one that still waits."""

        def __init__(self, snapshot: Snapshot) -> None:
            super().__init__()
            self.snapshot = snapshot

        def can_replace(self, message: Message) -> bool:
            """Return True: only the latest counts."""
            return isinstance(message, DashboardScreen.SnapshotTaken)

    @dataclass
    class ActionRequested(Message):
        """The operator wants to act on these processes; a plan comes first."""

        action: str
        identities: tuple[Identity, ...]
        scope: str

    @dataclass
    class DetailRequested(Message):
        """The operator wants to know all about a process."""

        identity: Identity

    class AuditRequested(Message):
        """The operator wants to see what was done on this host."""

    def __init__(self, link: Link, name: str, limits: Thresholds, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._link = link
        self._host_name = name
        self._limits = limits
        self._clock = clock
        self._complete = HostState()
        self._dismissed_at = 0.0
        self._filtering = False
        self._taken_at = 0.0
        self._pending: Timer | None = None
        self._stop: list[Callable[[], None]] = []

    def compose(self) -> ComposeResult:
        """Yield the parts from top to bottom."""
        yield HostBar(self._host_name, self._limits, widget_id="host")
        yield LinkBanner(widget_id="banner")
        yield LinesView(widget_id="alerts")
        with Vertical(id="data"):
            yield GpuPanel(self._limits, widget_id="gpus")
            yield ProcessTree(widget_id="tree")
        with Horizontal(id="filter-row"):
            yield Label(" filter: ", id="filter-label", markup=False)
            yield FilterBar(widget_id="filter")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Follow the link."""
        self._open_filter(False)
        self._stop = [self._link.listen(self._on_event), self._link.on_status(self._on_status)]
        self.set_interval(PERIOD_S, self._tick)
        self._take()

    def on_unmount(self) -> None:
        """Let go of the link."""
        for stop in self._stop:
            stop()
        self._stop = []

    @property
    def table(self) -> ProcessTree:
        """The process table."""
        return self.query_one(ProcessTree)

    def _on_event(self, event: Mapping[str, Any]) -> None:
        if event.get("ev") in _DATA_EVENTS and self._pending is None:
            first = not self._complete.complete
            wait = 0.0 if first else self._taken_at + PERIOD_S - time.monotonic()
            self._pending = self.set_timer(max(SETTLE_S, wait), self._take)

    def _on_status(self, status: object) -> None:
        self._take()

    def _tick(self) -> None:
        # While data flows its own repaints move the clock.
        if time.monotonic() - self._taken_at >= 0.9 * PERIOD_S and self._pending is None:
            self._take()

    def _take(self) -> None:
        if self._pending is not None:
            self._pending.stop()
            self._pending = None
        self._taken_at = time.monotonic()
        state = self._link.state
        if state.complete:
            self._complete = state
        elif self._complete.complete:
            # A new conversation has no full list yet: what was known stays on the screen, dimmed.
            state = replace(self._complete, faults=state.faults, complete=False)
        status, age_s = self._link.status, self._link.data_age_s()
        left_s = None if status.retry_in_s is None else max(0.0, status.since + status.retry_in_s - time.monotonic())
        self.post_message(
            self.SnapshotTaken(
                Snapshot(
                    state=state,
                    status=status,
                    age_s=age_s if math.isfinite(age_s) else None,
                    wall_s=self._clock(),
                    stale_after_s=self._limits.stale_after_s,
                    retry_left_s=left_s,
                )
            )
        )

    def on_dashboard_screen_snapshot_taken(self, message: SnapshotTaken) -> None:
        """Make it the one that is shown."""
        self.snapshot = message.snapshot

    def watch_snapshot(self, old: Snapshot | None, snapshot: Snapshot | None) -> None:
        """Show it, in one repaint."""
        if snapshot is None or not self.is_mounted:
            return
        with self.app.batch_update():
            alerts = open_alerts(snapshot.state, self._dismissed_at)
            self.query_one(HostBar).show_snapshot(snapshot, len(alerts) + len(snapshot.state.faults))
            self.query_one(LinkBanner).show_snapshot(self._host_name, snapshot, "R")
            self._show_alerts(snapshot)
            if old is None or old.state is not snapshot.state:
                self.query_one(GpuPanel).show_state(snapshot.state)
                self.table.empty_text = empty_text(snapshot.state, self.table.view)
                self.table.show_state(snapshot.state)
            if old is None or old.stale != snapshot.stale or old.up != snapshot.up:
                self.set_class(snapshot.stale, "-stale")
                self.refresh_bindings()

    def _show_alerts(self, snapshot: Snapshot) -> None:
        alerts = open_alerts(snapshot.state, self._dismissed_at)
        view = self.query_one("#alerts", LinesView)
        shown = alert_lines(snapshot.state, alerts, self.app.size.width, 1 if self.app.size.height < 30 else 3)
        view.display = bool(shown)
        view.show_lines(shown)

    def on_resize(self, event: events.Resize) -> None:
        """Lay the lines above the panels out for another width."""
        self.query_one(Footer).show_command_palette = event.size.width >= 100
        if self.snapshot is not None:
            self.watch_snapshot(self.snapshot, self.snapshot)

    @on(ProcessTree.ViewChanged)
    def _titles(self) -> None:
        tree = self.table
        state = self.snapshot.state if self.snapshot else HostState()
        tree.empty_text = empty_text(state, tree.view)
        title = titled(tree_title(state, tree.view, tree.matches))
        if title.markup != tree.border_title:
            tree.border_title = title
        subtitle = titled(tree_subtitle(tree.view))
        if subtitle.markup != tree.border_subtitle:
            tree.border_subtitle = subtitle

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return None (shown, but off) for actions while the data is stale; hide what makes no sense now."""
        if action == "act":
            return None if self._why_not() else True
        if action == "filter":
            return not self._filtering
        if action == "reconnect":
            return self.snapshot is not None and not self.snapshot.up
        return True

    def _why_not(self) -> str:
        return (
            self.snapshot.why_no_action
            if self.snapshot
            else "No action before the first full process list has arrived."
        )

    def on_key(self, event: events.Key) -> None:
        """Say why a key that is off does nothing."""
        bound = self.active_bindings.get(event.key)
        if bound is not None and not bound.enabled:
            self.notify(self._why_not(), severity="warning", markup=False)

    def _selected(self, wish: str) -> Identity | None:
        """Return the identity under the cursor, or tell the operator why ``wish`` cannot be."""
        cursor = self.table.cursor
        if cursor.ghost is not None:
            self.notify(
                f"Process {cursor.ghost.pid} has ended: there is nothing to {wish}. Move the cursor to another one.",
                severity="warning",
                markup=False,
            )
            return None
        if cursor.selected is None:
            self.notify(f"No process is selected to {wish}.", severity="warning", markup=False)
            return None
        return cursor.selected.identity

    def action_act(self, action: str) -> None:
        """Ask for a plan of ``action`` on the process under the cursor."""
        if why := self._why_not():
            self.notify(why, severity="warning", markup=False)
        elif identity := self._selected(action):
            self.post_message(self.ActionRequested(action, (identity,), protocol.TREE))

    def action_detail(self) -> None:
        """Ask for all about the process under the cursor."""
        if identity := self._selected("show"):
            self.post_message(self.DetailRequested(identity))

    def action_audit(self) -> None:
        """Ask for what was done on this host."""
        self.post_message(self.AuditRequested())

    def action_reconnect(self) -> None:
        """Try to connect now."""
        self._link.retry()

    def action_dismiss_alerts(self) -> None:
        """Take the alerts that are shown off the screen."""
        if self.snapshot:
            self._dismissed_at = max((a.at for a in self.snapshot.state.alerts), default=self._dismissed_at)
            self._take()

    def action_sort(self) -> None:
        """Sort by the next figure."""
        self.table.cycle_sort()

    def action_toggle_view(self, name: str) -> None:
        """Turn a restriction of the view on or off."""
        changed: dict[str, Any] = {name: not getattr(self.table.view, name)}
        self.table.view = replace(self.table.view, **changed)

    def action_filter(self) -> None:
        """Open the filter."""
        self._open_filter(True)
        self.query_one(FilterBar).focus()

    def _open_filter(self, opened: bool) -> None:
        self._filtering = opened
        self.query_one("#filter-row").display = opened
        self.refresh_bindings()

    def action_clear(self) -> None:
        """Drop the filter and the restrictions."""
        self.query_one(FilterBar).value = ""
        self._open_filter(False)
        self.table.view = replace(self.table.view, filter="", only_gpu=False, only_mine=False)

    @on(FilterBar.Changed)
    def _narrow(self, event: FilterBar.Changed) -> None:
        self.table.view = replace(self.table.view, filter=event.value)

    @on(FilterBar.Closed)
    def _close_filter(self, event: FilterBar.Closed) -> None:
        self._open_filter(False)
        self.table.focus()
