"""The words on the frame of the process table. Pure."""

from __future__ import annotations

from console.agent.protocol import printable
from console.host import tones
from console.host.lines import DIM, PLAIN, STRONG, WARN, Line, Piece
from console.host.state import HostState
from console.host.tree import TreeView


def tree_title(state: HostState, view: TreeView, matches: int) -> Line:
    """Return how many processes there are and how many are found."""
    total = len(state.processes) if view.kernel else sum(not p.kernel for p in state.processes.values())
    pieces: list[Piece] = [("Processes", STRONG), (f" {total}", PLAIN)]
    if view.narrowed:
        pieces.append((f" · {matches} found", tones.ACCENT if matches else WARN))
    paused = sum(p.state == "T" for p in state.processes.values())
    if paused:
        pieces.append((f" · {paused} paused", WARN))
    chosen = []
    if view.filter.strip():
        chosen.append(f"filter: {printable(view.filter.strip())}")
    if view.only_gpu:
        chosen.append("only GPU")
    if view.only_mine:
        chosen.append(f"only {printable(state.hello.user)}" if state.hello else "only mine")
    if view.kernel:
        chosen.append("with kernel threads")
    pieces += [piece for text in chosen for piece in ((" · ", DIM), (text, tones.ACCENT))]
    pieces += [(" · ", DIM), (f"sort: {view.sort}", PLAIN)]
    return tuple(pieces)


def tree_subtitle(view: TreeView) -> Line:
    """Return the keys that undo a restriction; empty when all is shown."""
    return (("esc shows all", DIM),) if view.narrowed else ()


def empty_text(state: HostState, view: TreeView) -> str:
    """Return what an empty table says."""
    if not state.processes:
        return "No process list yet."
    return "No process matches; esc shows all." if view.narrowed else "The host lists no process."
