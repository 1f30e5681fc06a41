"""The host in two lines: the link and who we are there; its load, memory, disks and network. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from console.agent.protocol import printable
from console.host import lines
from console.host.figures import NOT_AVAILABLE, age_text, count_text, size_text
from console.host.format import fraction, pair_text, percent_text, rate_text
from console.host.gpu_lines import gpu_kinds
from console.host.lines import BAD, DIM, GOOD, PLAIN, STRONG, WARN, Line, Piece
from console.host.link import CLOSED, REFUSED, UP, WAITING, LinkStatus
from console.host.state import Disk, Gauges, HostState
from console.host.thresholds import Thresholds


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a line that is left out as a whole where there is no room; ``rank`` 0 stays longest."""

    rank: int
    pieces: tuple[Piece, ...]

    @property
    def width(self) -> int:
        """Cells of the part."""
        return sum(lines.cells(text) for text, _ in self.pieces)


def fit(parts: Sequence[Part], right: Sequence[Part], width: int, gap: int = 2) -> Line:
    """Return ``parts`` from the left and ``right`` at the right edge in ``width`` cells; the highest ranks go first."""
    kept = [*parts, *right]

    def needed() -> int:
        return sum(p.width for p in kept) + gap * max(0, len(kept) - 1)

    while len(kept) > 1 and needed() > width:
        kept.remove(max(kept, key=lambda p: p.rank))
    left_kept = [p for p in parts if p in kept]
    right_kept = [p for p in right if p in kept]
    blank = width - needed() + (gap if left_kept and right_kept else 0)
    return (*_spaced(left_kept, gap), (" " * max(0, blank), PLAIN), *_spaced(right_kept, gap))


def _spaced(parts: Sequence[Part], gap: int) -> list[Piece]:
    out: list[Piece] = []
    for part in parts:
        if out:
            out.append((" " * gap, PLAIN))
        out += part.pieces
    return out


def chip(status: LinkStatus, age_s: float | None, retry_left_s: float | None, stale: bool) -> tuple[Piece, ...]:
    """Return the link in a few cells: alive with its round trip and the age of the data, or what it is doing now."""
    if status.phase == UP:
        rtt = NOT_AVAILABLE if status.rtt_ms is None else f"{status.rtt_ms:.0f} ms"
        if age_s is None:
            return ((f"◐ {rtt}", WARN), (" no data yet", WARN))
        if stale:
            return ((f"◐ {rtt}", WARN), (f" data {age_s:.0f} s old", WARN))
        return ((f"● {rtt}", GOOD), (f" data {age_s:.1f} s", DIM))
    if status.phase == WAITING and retry_left_s is not None:
        return (
            (f"✕ down, next try in {math.ceil(retry_left_s)} s", BAD),
            (f" after {count_text(status.attempt, 'try', 'tries')}", DIM),
        )
    if status.phase in (REFUSED, CLOSED):
        return ((f"✕ {status.phase}", BAD),)
    again = f" (try {status.attempt})" if status.attempt > 1 else ""
    return ((f"◌ {printable(status.phase)}{again}", WARN),)


def identity_line(
    name: str,
    state: HostState,
    link: tuple[Piece, ...],
    width: int,
    *,
    wall_s: float,
    alerts: int,
) -> Line:
    """Return the first line: host, link, user, GPUs; alerts and the operator's clock at the right."""
    hello = state.hello
    parts = [Part(0, ((f" {printable(name)}", STRONG),)), Part(1, link)]
    if hello:
        if hello.hostname != name:
            parts.insert(1, Part(7, ((printable(hello.hostname), DIM),)))
        parts.append(Part(4, (("as ", DIM), (printable(hello.user), PLAIN))))
    if state.gpus:
        parts.append(Part(5, ((gpu_kinds(state), PLAIN),)))
    if hello:
        parts.append(Part(9, ((f"up {age_text(state.uptime_s)}", DIM),)))
        parts.append(Part(10, ((printable(hello.kernel), DIM),)))
    right = [Part(3, ((time.strftime("%H:%M:%S", time.localtime(wall_s)) + " ", DIM),))]
    if alerts:
        right.insert(0, Part(2, ((f"▲ {count_text(alerts, 'alert')}", BAD),)))
    return fit(parts, right, width)


def gauges_line(gauges: Gauges, width: int, limits: Thresholds) -> Line:
    """Return the second line: load, CPU, memory, swap when it is used, disks, network."""
    parts = [
        Part(1, (("load ", DIM), *_load(gauges))),
        Part(2, (("cpu ", DIM), *_cpu(gauges))),
        Part(0, (("mem ", DIM), *_memory(gauges))),
    ]
    if gauges.swap_used_bytes:
        parts.append(Part(6, (("swap ", DIM), (pair_text(gauges.swap_used_bytes, gauges.swap_total_bytes), WARN))))
    parts += [Part(3, _disk(disk, limits)) for disk in gauges.disks]
    parts.append(Part(5, (("net ", DIM), *_net(gauges))))
    first = parts[0]
    parts[0] = Part(first.rank, ((" ", PLAIN), *first.pieces))
    return fit(parts, (), width)


def _load(gauges: Gauges) -> tuple[Piece, ...]:
    if gauges.load is None:
        return ((NOT_AVAILABLE, DIM),)
    one, *others = gauges.load
    busy = gauges.cores is not None and one > gauges.cores
    return ((f"{one:.1f}", WARN if busy else PLAIN), (" " + " ".join(f"{each:.1f}" for each in others), DIM))


def _cpu(gauges: Gauges) -> tuple[Piece, ...]:
    cores: tuple[Piece, ...] = () if gauges.cores is None else ((f" of {gauges.cores}", DIM),)
    if gauges.cpu_percent is None:
        return ((NOT_AVAILABLE, DIM), *cores)
    return ((percent_text(gauges.cpu_percent), PLAIN), *cores)


def _memory(gauges: Gauges) -> tuple[Piece, ...]:
    if gauges.memory_total_bytes is None:
        return ((NOT_AVAILABLE, DIM),)
    share = fraction(gauges.memory_used_bytes, gauges.memory_total_bytes) or 0.0
    return ((pair_text(gauges.memory_used_bytes, gauges.memory_total_bytes), BAD if share > 0.95 else PLAIN),)


def _disk(disk: Disk, limits: Thresholds) -> tuple[Piece, ...]:
    name: Piece = (f"{printable(disk.path)} ", DIM)
    if disk.free_bytes is None:
        return (name, (printable(disk.error) or NOT_AVAILABLE, WARN if disk.error else DIM))
    left = fraction(disk.free_bytes, disk.total_bytes)
    short = left is not None and left * 100 < limits.disk_free_warn_percent
    return (name, (f"{size_text(disk.free_bytes)} free", WARN if short else PLAIN))


def _net(gauges: Gauges) -> tuple[Piece, ...]:
    if gauges.net_rx_bytes_per_s is None and gauges.net_tx_bytes_per_s is None:
        return ((NOT_AVAILABLE, DIM),)
    return ((f"↓{rate_text(gauges.net_rx_bytes_per_s)} ↑{rate_text(gauges.net_tx_bytes_per_s)}", PLAIN),)


def missing_text(gauges: Gauges) -> str:
    """Return why figures are n/a, one a line; empty when none is."""
    return "\n".join(f"{printable(name)}: {printable(why)}" for name, why in sorted(gauges.missing.items()))
