"""The process tree as rows: who is whose child, what is folded, what matches, in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from console.agent.protocol import Identity, command_line
from console.host.state import HostState, Process

SORTS = ("gpu", "cpu", "rss", "age", "pid", "command")


@dataclass(frozen=True, slots=True)
class TreeView:
    """What the operator chose to see of the tree."""

    folded: frozenset[Identity] = frozenset()
    filter: str = ""
    """A part of the command line, the user name or the pid; upper and lower case are the same."""
    sort: str = "gpu"
    only_gpu: bool = False
    only_mine: bool = False
    """Only processes of the user that the agent runs as."""
    kernel: bool = False
    """Show kernel threads."""
    pinned: Identity | None = None
    """Shown as long as it lives, even where it does not match: what the cursor is on must not vanish."""

    @property
    def narrowed(self) -> bool:
        """True when some processes are hidden by choice."""
        return bool(self.filter.strip()) or self.only_gpu or self.only_mine


class TreeRow(NamedTuple):
    """One row. Sums are over the whole subtree, hidden processes included."""

    identity: Identity
    process: Process
    depth: int
    guide: str
    """The lines of the tree left of the command: ``│├▾ ``."""
    has_children: bool
    folded: bool
    context: bool
    """True when it does not match and is shown for a process below it (or because the cursor is on it)."""
    gpu_bytes: int | None
    """Own GPU memory; None when it holds none or the driver does not tell."""
    holds_gpu: bool
    tree_gpu_bytes: int
    tree_holds_gpu: bool
    tree_cpu_percent: float
    tree_rss_bytes: int
    tree_count: int
    """Processes in the subtree, itself included."""


def gpu_holders(state: HostState) -> dict[int, int | None]:
    """Return pid → GPU memory for every process that /proc confirms; None where the driver does not tell how much."""
    held: dict[int, int | None] = {}
    for gpu in state.gpus:
        for holder in gpu.processes or ():
            process = state.processes.get(holder.pid)
            if process is None or holder.start_ticks != process.start_ticks:
                continue
            known = held.get(holder.pid)
            held[holder.pid] = known if holder.memory_bytes is None else (known or 0) + holder.memory_bytes
    return held


def build_rows(state: HostState, view: TreeView) -> list[TreeRow]:
    """Return the rows to show, from the top.

    Without a filter every process (kernel threads only with ``view.kernel``) has exactly one row, or is below a folded
    one. With one, matches are shown with their ancestors; processes of ours are left out, so that a search for a
    command line never finds the search.
    """
    searching = bool(view.filter.strip())
    forest = _forest(
        {pid: p for pid, p in state.processes.items() if (view.kernel or not p.kernel) and not (searching and p.ours)}
    )
    sums = _Sums(forest, gpu_holders(state))
    shown, matched = _selection(state, view, forest, sums.held)
    return _rows(state, view, forest, sums, shown, matched)


class _Forest(NamedTuple):
    """Who is below whom. ``order`` has every pid, parents first."""

    procs: dict[int, Process]
    children: dict[int, list[int]]
    roots: list[int]
    order: list[int]


def _forest(procs: dict[int, Process]) -> _Forest:
    """Return ``procs`` as trees. A ring of parents (torn reading) is cut at its lowest pid: it is a root then."""
    children: dict[int, list[int]] = {}
    roots: list[int] = []
    for pid, process in procs.items():
        ppid = process.ppid
        if ppid not in procs or ppid == pid:
            roots.append(pid)
        elif ppid in children:
            children[ppid].append(pid)
        else:
            children[ppid] = [pid]
    order: list[int] = []
    _descend(roots, children, order)
    if len(order) < len(procs):
        seen = set(order)
        for pid in sorted(procs):
            if pid not in seen:
                children[procs[pid].ppid].remove(pid)
                roots.append(pid)
                start = len(order)
                _descend([pid], children, order)
                seen.update(order[start:])
    return _Forest(procs, children, roots, order)


def _descend(starts: list[int], children: Mapping[int, list[int]], order: list[int]) -> None:
    stack = list(starts)
    while stack:
        pid = stack.pop()
        order.append(pid)
        below = children.get(pid)
        if below:
            stack.extend(below)


class _Sums:
    """Sums over subtrees, by pid of the subtree's root. Only inner nodes are added up; a leaf is its own sum."""

    def __init__(self, forest: _Forest, held: dict[int, int | None]) -> None:
        procs, children, _, order = forest
        self.held = held
        self.cpu = {pid: p.cpu_percent or 0.0 for pid, p in procs.items()}
        self.rss = {pid: p.rss_bytes for pid, p in procs.items()}
        self.gpu = {pid: size or 0 for pid, size in held.items() if pid in procs}
        self.holds = {pid for pid in held if pid in procs}
        self.count: dict[int, int] = {}
        cpu, rss, gpu, holds, count = self.cpu, self.rss, self.gpu, self.holds, self.count
        for pid in reversed(order):
            below = children.get(pid)
            if not below:
                continue
            total = 1
            for child in below:
                cpu[pid] += cpu[child]
                rss[pid] += rss[child]
                total += count.get(child, 1)
                if child in holds:
                    holds.add(pid)
                    gpu[pid] = gpu.get(pid, 0) + gpu[child]
            count[pid] = total


def _selection(
    state: HostState, view: TreeView, forest: _Forest, held: Mapping[int, int | None]
) -> tuple[set[int] | None, set[int] | None]:
    """Return (pids to show, pids that match); (None, None) when nothing is hidden."""
    if not view.narrowed:
        return None, None
    procs, tops = forest.procs, set(forest.roots)
    wanted = view.filter.strip().casefold()
    mine = state.hello.uid if state.hello else None
    matched = {
        pid
        for pid, p in procs.items()
        if (not view.only_gpu or pid in held)
        and (not view.only_mine or p.uid == mine)
        and (not wanted or wanted in _haystack(p.argv, p.comm, p.user, pid))
    }
    shown = set(matched)
    if view.pinned and view.pinned[1] in procs and procs[view.pinned[1]].start_ticks == view.pinned[2]:
        shown.add(view.pinned[1])
    for pid in reversed(forest.order):
        if pid in shown and pid not in tops:
            shown.add(procs[pid].ppid)
    return shown, matched


@lru_cache(maxsize=16384)
def _haystack(argv: tuple[str, ...], comm: str, user: str, pid: int) -> str:
    return "\n".join((str(pid), user, " ".join(argv) or comm)).casefold()


@lru_cache(maxsize=16384)
def _sort_name(argv: tuple[str, ...], comm: str) -> str:
    return command_line(list(argv), comm).casefold()


Sorter = Callable[[list[int]], list[int]]


def _sorter(sort: str, procs: Mapping[int, Process], sums: _Sums) -> Sorter:
    """Return what orders siblings: the figure of the subtree, largest first; equals by pid, so that rows rest."""
    if sort == "pid":
        return sorted
    if sort == "age":
        return lambda pids: sorted(pids, key=lambda pid: (procs[pid].start_ticks, pid))
    if sort == "command":
        return lambda pids: sorted(pids, key=lambda pid: (_sort_name(procs[pid].argv, procs[pid].comm), pid))
    figures: dict[str, Mapping[int, float]] = {"cpu": sums.cpu, "rss": sums.rss}
    figure = figures.get(sort, sums.gpu)
    return lambda pids: sorted(sorted(pids), key=lambda pid: figure.get(pid, 0), reverse=True)


def _rows(
    state: HostState,
    view: TreeView,
    forest: _Forest,
    sums: _Sums,
    shown: set[int] | None,
    matched: set[int] | None,
) -> list[TreeRow]:
    procs, children, roots, _ = forest
    sort = _sorter(view.sort, procs, sums)
    boot = state.hello.boot_id if state.hello else ""
    folded_ids, searching = view.folded, bool(view.filter.strip())
    rows: list[TreeRow] = []
    # The stack holds (pid, depth, the guide of its ancestors, its own branch); the next row is on top.
    stack = [(pid, 0, "", "") for pid in reversed(sort(roots)) if shown is None or pid in shown]
    while stack:
        pid, depth, trunk, branch = stack.pop()
        process = procs[pid]
        identity = (boot, pid, process.start_ticks)
        below = children.get(pid)
        if below and shown is not None:
            below = [child for child in below if child in shown]
        context = matched is not None and pid not in matched
        # A search looks into folded nodes: what was found must be seen.
        folded = bool(below) and identity in folded_ids and not (searching and context)
        mark = ("▸ " if folded else "▾ ") if below else ("─ " if depth else "  ")
        rows.append(
            TreeRow(
                identity,
                process,
                depth,
                trunk + branch + mark,
                bool(below),
                folded,
                context,
                sums.held.get(pid),
                pid in sums.held,
                sums.gpu.get(pid, 0),
                pid in sums.holds,
                sums.cpu[pid],
                sums.rss[pid],
                sums.count.get(pid, 1),
            )
        )
        if below and not folded:
            trunk += {"": "", "├": "│", "└": " "}[branch]
            last = True
            for child in reversed(sort(below) if len(below) > 1 else below):
                stack.append((child, depth + 1, trunk, "└" if last else "├"))
                last = False
    return rows
