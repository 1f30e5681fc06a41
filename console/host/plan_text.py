"""A plan and an outcome in words: what will be done to which process, and what was done.

The dialogs show the lines with their tones; the command line prints :func:`plan_lines` and :func:`outcome_lines`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.agent import protocol
from console.agent.protocol import Identity, command_line, printable
from console.host import lines
from console.host.actions import Plan, PlannedProcess
from console.host.figures import count_text, size_text
from console.host.lines import Line
from console.host.outcome_text import outcome_lines
from console.host.process_table import table_lines
from console.host.state import HostState

__all__ = [
    "around_lines",
    "counts_text",
    "gpu_counts",
    "outcome_lines",
    "plan_lines",
    "refusal_lines",
    "target_table",
    "verb",
]

VERBS = {protocol.PAUSE: "Pause", protocol.RESUME: "Resume", protocol.STOP: "Terminate", protocol.KILL: "Kill"}
"""Action → what a title and a button call it."""

MIN_COMMAND_CELLS = 32
"""What at least is shown of the command of a process that is not a target."""


def verb(action: str) -> str:
    """Return what an operator calls ``action``."""
    return VERBS.get(action, printable(action))


def counts_text(plan: Plan) -> str:
    """Return the sizes of the plan's lists: ``3 processes · 1 not touched · 2 related, not included``."""
    parts = [count_text(len(plan.targets), "process")]
    if plan.scope == protocol.ONLY:
        parts[0] += ", only what you chose"
    if plan.spared:
        parts.append(f"{len(plan.spared)} not touched")
    if plan.candidates:
        parts.append(f"{len(plan.candidates)} related, not included")
    if plan.warnings:
        parts.append(count_text(len(plan.warnings), "warning"))
    return " · ".join(parts)


def target_table(plan: Plan, width: int, *, whole: bool = False) -> tuple[Line, list[Line]]:
    """Return the head and the rows of the plan's targets, at most ``width`` cells wide; see :func:`table_lines`."""
    return table_lines(plan.targets, width, signals=True, whole=whole, roots=plan.roots)


def warning_lines(plan: Plan, width: int) -> list[Line]:
    """Return every warning after a ⚠."""
    return [
        each
        for warning in plan.warnings
        for each in lines.wrapped(printable(warning), width, tone=lines.WARN, first="⚠ ")
    ]


def spared_lines(plan: Plan, width: int, gpus: Mapping[Identity, int] | None = None) -> list[Line]:
    """Return what the action does not touch, a process a paragraph; ``gpus`` counts the GPUs each holds memory on."""
    out: list[Line] = []
    for process in plan.spared:
        end = _fate_of_spared(plan.action)
        text = f"{_named(process, gpus, width - len('Not touched:  ') - len(end))} {end}"
        why = printable(process.why)
        shown = f"Not touched: {text}: {why}" if why else f"Not touched: {text}"
        out.extend(lines.hanging(shown, width, tone=lines.GOOD))
    return out


def candidate_lines(plan: Plan, width: int, gpus: Mapping[Identity, int] | None = None) -> list[Line]:
    """Return the GPU holders that look related and are not in the set."""
    if not plan.candidates:
        return []
    out: list[Line] = [(("Related GPU holders, not included:", lines.WARN),)]
    for process in plan.candidates:
        why = printable(process.why)
        text = f"{_named(process, gpus, width - 2)}{f': {why}' if why else ''}"
        out.extend(lines.hanging("+ " + text, width))
    return out


def around_lines(plan: Plan, width: int, gpus: Mapping[Identity, int] | None = None) -> list[Line]:
    """Return what surrounds the targets: warnings, what is not touched, what is related."""
    return [*warning_lines(plan, width), *spared_lines(plan, width, gpus), *candidate_lines(plan, width, gpus)]


def refusal_lines(plan: Plan, width: int) -> list[Line]:
    """Return why the plan may not be carried out; nothing when it may."""
    if not plan.refusal:
        return []
    return list(lines.hanging(f"Refused: {printable(plan.refusal)}", width, tone=lines.BAD))


def plan_lines(plan: Plan, width: int) -> list[str]:
    """Return the whole plan as plain text of at most ``width`` cells a line, for a terminal without a screen."""
    head, rows = target_table(plan, width)
    shown: list[Line] = [lines.line(f"{verb(plan.action)}: {plan.summary}")]
    shown.extend(refusal_lines(plan, width))
    if plan.targets:
        shown.extend([head, *rows])
    shown.extend(around_lines(plan, width))
    return lines.plain_all(shown)


def gpu_counts(state: HostState, processes: Sequence[PlannedProcess]) -> dict[Identity, int]:
    """Return identity → on how many GPUs it holds memory in ``state``, for those that hold any."""
    counts: dict[Identity, int] = {}
    for process in processes:
        count = sum(
            any(p.pid == process.pid and p.start_ticks == process.start_ticks for p in gpu.processes or ())
            for gpu in state.gpus
        )
        if count:
            counts[process.identity] = count
    return counts


def _named(process: PlannedProcess, gpus: Mapping[Identity, int] | None, width: int) -> str:
    """Return ``COMMAND … PID (USER, 593 G on 8 GPUs)``, in ``width`` cells where that leaves enough of the command."""
    facts = [printable(process.user)]
    if process.gpu_bytes is not None:
        on = process.gpu_count or (gpus or {}).get(process.identity)
        facts.append(size_text(process.gpu_bytes) + (f" on {count_text(on, 'GPU')}" if on else " of GPU memory"))
    rest = f" {process.pid} ({', '.join(facts)})"
    room = max(width - lines.cells(rest), MIN_COMMAND_CELLS)
    return lines.crop(command_line(list(process.argv), process.comm), room) + rest


def _fate_of_spared(action: str) -> str:
    return "stays as it is" if action == protocol.RESUME else "stays up"
