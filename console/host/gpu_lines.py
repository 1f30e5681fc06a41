"""GPUs as lines of text: one full line each, or small cells side by side and a summary. Pure."""

from __future__ import annotations

from console.agent.protocol import printable
from console.host import lines, tones
from console.host.figures import NOT_AVAILABLE, NOTHING, size_text
from console.host.format import bar, fraction, pair_text, percent_text, sparkline, watts_text
from console.host.history import SAMPLES, UtilisationHistory
from console.host.layout_figures import SMALL_GPU, GpuFigures, gpu_cells_per_line, gpu_figures
from console.host.lines import BAD, DIM, PLAIN, STRONG, WARN, Line, Piece, crop, pad
from console.host.names import process_name
from console.host.state import Gpu, GpuDriver, HostState
from console.host.thresholds import Thresholds

_DRIVER_TEXT = {
    "absent": "No NVIDIA driver on this host: there are no GPUs to show.",
    "mismatch": "The NVIDIA driver and its library are of different versions: reboot the host, or reload the driver.",
    "hung": "The NVIDIA driver does not answer. Figures are missing; processes can still be controlled.",
    "error": "The NVIDIA driver reports an error.",
}


def driver_line(driver: GpuDriver, count: int) -> Line | None:
    """Return what to say in place of, or above, the GPUs; None when the driver works and there are GPUs."""
    if driver.state == "unknown":
        return lines.line(("GPUs have not been read yet.", DIM))
    if driver.state != "ok":
        text = printable(driver.text) or _DRIVER_TEXT.get(
            driver.state, f"The NVIDIA driver is in state {driver.state}."
        )
        return lines.line((text, DIM if driver.state == "absent" else BAD))
    return None if count else lines.line(("The driver works and lists no GPU.", DIM))


def gpu_lines(state: HostState, history: UtilisationHistory, width: int, limits: Thresholds) -> list[Line]:
    """Return one line a GPU, each at most ``width`` cells."""
    figures = gpu_figures(width)
    return [_full(gpu, state, history, figures, width, limits) for gpu in state.gpus]


def _full(
    gpu: Gpu, state: HostState, history: UtilisationHistory, figures: GpuFigures, width: int, limits: Thresholds
) -> Line:
    head: Piece = (f"{gpu.index:>2} ", STRONG)
    if gpu.state != "ok":
        return (head, (f"{gpu.state.upper()} ", BAD), (crop(_reason(gpu), width - 4 - len(gpu.state)), BAD))
    share = fraction(gpu.memory_used_bytes, gpu.memory_total_bytes)
    full, empty = bar(share, figures.bar)
    pieces: list[Piece] = [
        head,
        (full, memory_tone(share, limits)),
        (empty, tones.TRACK),
        (pad(pair_text(gpu.memory_used_bytes, gpu.memory_total_bytes), 12, right=True), PLAIN),
        (pad(percent_text(gpu.utilisation_percent), 5, right=True) + " ", STRONG),
    ]
    if figures.spark:
        line = sparkline(history.of(gpu), figures.spark, count=history.count(gpu), capacity=SAMPLES)
        pieces += [(line, tones.SPARK), (" ", PLAIN)]
    pieces += [
        (pad(_degrees(gpu), 5, right=True), temperature_tone(gpu.temperature_c, limits)),
        (pad(watts_text(gpu.power_w, gpu.power_limit_w), 10, right=True), PLAIN),
    ]
    if figures.clocks:
        clock = NOT_AVAILABLE if gpu.clock_sm_mhz is None else f"{gpu.clock_sm_mhz} MHz"
        pieces.append((pad(clock, 9, right=True), DIM))
    pieces.append(("  ", PLAIN))
    room = width - sum(lines.cells(text) for text, _ in pieces)
    for text, tone in _remarks(gpu, state):
        if room < 8:
            break
        shown = crop(text, room)
        pieces.append((shown, tone))
        room -= lines.cells(shown)
    return tuple(pieces)


def _reason(gpu: Gpu) -> str:
    plain = {
        "lost": "it fell off the bus; only a reset or a reboot of the host brings it back",
        "hung": "the driver does not answer for it",
    }
    return printable(gpu.reason) or plain.get(gpu.state, "the driver gives no reason")


def _degrees(gpu: Gpu) -> str:
    return NOT_AVAILABLE if gpu.temperature_c is None else f"{gpu.temperature_c}°C"


def memory_tone(share: float | None, limits: Thresholds) -> str:
    """Return the tone of a memory bar."""
    return tones.BAR_WARM if share is not None and share * 100 >= limits.memory_warn_percent else tones.BAR


def temperature_tone(temperature_c: float | None, limits: Thresholds) -> str:
    """Return the tone of a temperature."""
    if temperature_c is None:
        return DIM
    if temperature_c >= limits.temperature_danger_c:
        return BAD
    return WARN if temperature_c >= limits.temperature_warn_c else PLAIN


def _remarks(gpu: Gpu, state: HostState) -> list[Piece]:
    """Return what needs attention, then who holds the memory."""
    remarks: list[Piece] = []
    if gpu.ecc_uncorrected:
        remarks.append((f"▲ {gpu.ecc_uncorrected} uncorrected ECC errors  ", BAD))
    if gpu.throttle:
        remarks.append((f"▲ slowed: {printable(', '.join(gpu.throttle))}  ", WARN))
    if gpu.mig:
        remarks.append(("MIG  ", tones.ACCENT))
    return [*remarks, owner(gpu, state)]


def owner(gpu: Gpu, state: HostState) -> Piece:
    """Return the name of the process that holds most of this GPU's memory, and how many more hold some."""
    if gpu.processes is None:
        return (f"processes {NOT_AVAILABLE}", DIM)
    if not gpu.processes:
        return (NOTHING, DIM)
    confirmed = [
        (holder, process)
        for holder in gpu.processes
        if (process := state.processes.get(holder.pid)) and process.start_ticks == holder.start_ticks
    ]
    if not confirmed:
        first = max(gpu.processes, key=lambda holder: holder.memory_bytes or 0)
        return (f"pid {first.pid}, {printable(first.note) or 'not in the process list'}", WARN)
    _, top = max(confirmed, key=lambda pair: (pair[0].memory_bytes or 0, -pair[0].pid))
    more = len(gpu.processes) - 1
    return (process_name(top) + (f" +{more}" if more else ""), PLAIN)


def small_lines(state: HostState, width: int, limits: Thresholds) -> list[Line]:
    """Return all GPUs as small cells (number, memory bar, utilisation) and one line of totals and troubles."""
    per_line = gpu_cells_per_line(width, len(state.gpus))
    # Cells may grow where there is room, so that eight of them fill the line.
    cell = max(SMALL_GPU, min(24, width // per_line))
    rows = [state.gpus[start : start + per_line] for start in range(0, len(state.gpus), per_line)]
    out: list[Line] = [tuple(piece for gpu in row for piece in _small(gpu, cell, limits)) for row in rows]
    return [*out, _summary(state, width, limits)]


def _small(gpu: Gpu, cell: int, limits: Thresholds) -> list[Piece]:
    index = f" {gpu.index}"
    if gpu.state != "ok":
        return [(index, STRONG), (pad(" " + gpu.state.upper(), cell - len(index)), BAD)]
    share = fraction(gpu.memory_used_bytes, gpu.memory_total_bytes)
    full, empty = bar(share, cell - 4 - len(index))
    busy = pad(percent_text(gpu.utilisation_percent), 4, right=True)
    return [(index, STRONG), (full, memory_tone(share, limits)), (empty, tones.TRACK), (busy, PLAIN)]


def _summary(state: HostState, width: int, limits: Thresholds) -> Line:
    troubles: list[Piece] = [(f"GPU {g.index} {g.state}: {_reason(g)}", BAD) for g in state.gpus if g.state != "ok"]
    troubles += [(f"GPU {g.index} slowed: {printable(', '.join(g.throttle))}", WARN) for g in state.gpus if g.throttle]
    troubles += [(f"GPU {g.index} has {g.ecc_uncorrected} ECC errors", BAD) for g in state.gpus if g.ecc_uncorrected]
    good = [g for g in state.gpus if g.state == "ok"]
    parts: list[Piece] = list(troubles)
    used = [g.memory_used_bytes for g in good if g.memory_used_bytes is not None]
    total = [g.memory_total_bytes for g in good if g.memory_total_bytes is not None]
    if total:
        parts.append((f"{pair_text(sum(used) if used else None, sum(total))}", PLAIN))
    hottest = max((g for g in good if g.temperature_c is not None), key=lambda g: g.temperature_c or 0, default=None)
    if hottest is not None:
        parts.append((f"hottest {hottest.index}: {_degrees(hottest)}", temperature_tone(hottest.temperature_c, limits)))
    power = [g.power_w for g in good if g.power_w is not None]
    if power:
        parts.append((f"{sum(power) / 1000:.1f} kW", PLAIN))
    top = _biggest(state)
    if top:
        parts.append((top, PLAIN))
    return _joined(parts, width)


def _biggest(state: HostState) -> str:
    held = state.gpu_bytes()
    if not held:
        return ""
    pid = max(held, key=lambda each: (held[each], -each))
    return f"most: {process_name(state.processes[pid])} {size_text(held[pid])}"


def _joined(parts: list[Piece], width: int) -> Line:
    out: list[Piece] = []
    room = width
    for text, tone in parts:
        lead = " · " if out else " "
        if room < lines.cells(lead) + 4:
            break
        shown = crop(text, room - lines.cells(lead))
        out += [(lead, DIM), (shown, tone)]
        room -= lines.cells(lead) + lines.cells(shown)
    return tuple(out)


def panel_title(state: HostState) -> Line:
    """Return the panel's title: how many GPUs, of which kind, and SIMULATED when they are not real."""
    pieces: list[Piece] = [("GPUs", STRONG)]
    if state.gpus:
        pieces.append((f" {gpu_kinds(state)}", PLAIN))
    if state.driver.version and not state.driver.simulated:
        pieces.append((f" · driver {printable(state.driver.version)}", DIM))
    if state.driver.simulated:
        pieces.append((" SIMULATED ", WARN))
    elif state.driver.state == "ok" and any(g.state != "ok" for g in state.gpus):
        pieces.append((f" · {sum(g.state != 'ok' for g in state.gpus)} not working", BAD))
    return tuple(pieces)


def gpu_kinds(state: HostState) -> str:
    """Return ``8 × H200`` or ``4 × A100, 4 × L40``; the maker's name is left out."""
    kinds: dict[str, int] = {}
    for gpu in state.gpus:
        name = printable(gpu.name or "GPU").removeprefix("NVIDIA ")
        kinds[name] = kinds.get(name, 0) + 1
    return ", ".join(f"{count} × {name}" for name, count in kinds.items())
