"""An outcome in words: what was sent to which process, what was verified, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from console.agent import protocol
from console.agent.protocol import command_line, printable
from console.host import lines
from console.host.actions import Outcome, TargetOutcome
from console.host.figures import NOT_AVAILABLE, count_text, size_text, took_text
from console.host.lines import Line, Piece
from console.host.process_table import table_lines

_DONE = {
    protocol.PAUSE: "Paused: {} verified stopped (T)",
    protocol.RESUME: "Resumed: {} verified running",
    protocol.STOP: "Exited: {} verified gone",
    protocol.KILL: "Killed: {} verified gone",
}
_NOT_DONE = {
    protocol.PAUSE: "Not all stopped",
    protocol.RESUME: "Not all run again",
    protocol.STOP: "Not all ended",
    protocol.KILL: "Not all ended",
}
_UNKNOWN = "The host recorded the intent and no result: look at the processes before you repeat it"


def anything_sent(outcome: Outcome) -> bool:
    """Return True when a signal went to at least one process."""
    return any(target.sent for target in outcome.targets)


def headline(outcome: Outcome, elapsed_s: float | None = None) -> Piece:
    """Return one sentence on where the action stands, with its tone; ``elapsed_s`` may be fresher than its own."""
    elapsed = outcome.elapsed_s if elapsed_s is None else max(elapsed_s, outcome.elapsed_s)
    verified = sum(target.verified for target in outcome.targets)
    total = len(outcome.targets)
    if outcome.phase == "refused" or outcome.refusal:
        end = "" if anything_sent(outcome) else " Nothing was sent."
        return f"Refused: {_sentence(outcome.refusal or 'the host gave no reason')}{end}", lines.BAD
    if outcome.phase == "unknown":
        return f"{_UNKNOWN}.", lines.BAD
    if not outcome.done:
        return _running(outcome, elapsed, verified, total), lines.PLAIN
    count = count_text(total, "process")
    if outcome.ok:
        took = f" in {took_text(outcome.elapsed_s * 1000)}" if outcome.elapsed_s else ""
        return f"{_DONE.get(outcome.op, 'Done: {} verified').format(count)}{took}.", lines.GOOD
    grace = f" within {outcome.grace_s:g} s" if outcome.op == protocol.STOP and outcome.grace_s else ""
    return f"{_NOT_DONE.get(outcome.op, 'Not verified')}{grace}: {verified} of {count} verified.", lines.BAD


def counts_down(outcome: Outcome) -> bool:
    """Return True while a terminate waits for its targets to end within the grace."""
    return outcome.op == protocol.STOP and outcome.phase == "waiting" and not outcome.done and outcome.grace_s > 0


def _running(outcome: Outcome, elapsed_s: float, verified: int, total: int) -> str:
    if counts_down(outcome):
        waited = min(elapsed_s, outcome.grace_s)
        return f"Waiting for exit: {waited:.0f} s of {outcome.grace_s:g}, {verified} of {total} gone"
    if outcome.phase in ("sent", "waiting"):
        return f"Sent; verifying: {verified} of {total}"
    return "The host compares every process with what you were shown…"


def _sentence(text: str) -> str:
    shown = printable(text).strip()
    return shown if shown.endswith((".", "!", "?")) else shown + "."


def target_line(target: TargetOutcome, width: int, pid_cells: int = 0) -> list[Line]:
    """Return what happened to one target: ``121338  ✓ sent SIGSTOP  S → T  8 ms``, its command, and what went wrong."""
    mark: Piece = ("✓", lines.GOOD) if target.verified else ("·", lines.DIM)
    if target.reason and not target.verified:
        mark = ("✗", lines.BAD)
    sent = f"sent {_signals(target.sent)}" if target.sent else "not signalled"
    change = _change(target)
    took = took_text(target.ms) if target.ms is not None and target.verified else ""
    lead = f"{target.pid:>{pid_cells}}  "
    pieces: list[Piece] = [(lead, lines.PLAIN), mark, (f" {sent:<14} {change:<10} {took:>7}  ", lines.PLAIN)]
    room = width - sum(lines.cells(text) for text, _ in pieces)
    command = command_line(list(target.argv))
    if room >= 8:
        pieces.append((lines.crop(command, room), lines.DIM))
    out = [tuple(pieces)]
    notes = [printable(target.reason)] if target.reason else []
    if target.added:
        notes.append("born after the plan was read, belongs to its set")
    indent = " " * lines.cells(lead)
    tone = lines.BAD if target.reason and not target.verified else lines.DIM
    for note in notes:
        out.extend(lines.wrapped(note, width, tone=tone, first=f"{indent}↳ "))
    return out


def _signals(sent: str) -> str:
    """Return ``SIGSTOP``, or ``STOP+KILL`` when there were several."""
    names = printable(sent).split("+")
    return names[0] if len(names) == 1 else "+".join(name.removeprefix("SIG") for name in names)


def _change(target: TargetOutcome) -> str:
    before = printable(target.state_before or "?")
    if target.state_after is None:
        return f"{before} →" if target.sent else before
    return f"{before} → {printable(target.state_after)}"


def target_lines(outcome: Outcome, width: int) -> list[Line]:
    """Return every target; once the action is over, those that did not reach the state come first."""
    targets: Sequence[TargetOutcome] = outcome.targets
    if outcome.done:
        targets = sorted(targets, key=lambda target: target.verified)
    pid_cells = max((len(str(target.pid)) for target in targets), default=0)
    return [each for target in targets for each in target_line(target, width, pid_cells)]


def aftermath_lines(outcome: Outcome, width: int) -> list[Line]:
    """Return GPU memory before and after, what still holds it, what is left, and what the host could not record."""
    out: list[Line] = []
    if outcome.audit:
        text = f"The host's audit file has no record of this: {_sentence(outcome.audit)}"
        out.extend(lines.wrapped(text, width, tone=lines.WARN, first="⚠ "))
    if outcome.note:
        out.extend(lines.wrapped(printable(outcome.note), width, tone=lines.DIM))
    out.extend(_gpu_lines(outcome, width))
    out.extend(_left_lines(outcome, width))
    return out


def _gpu_lines(outcome: Outcome, width: int) -> list[Line]:
    if outcome.op not in (protocol.STOP, protocol.KILL) or not outcome.done or outcome.phase in ("refused", "unknown"):
        return []
    if outcome.gpu_bytes_before is None and outcome.gpu_bytes_after is None:
        out: list[Line] = [lines.line(f"GPU memory of the set: {NOT_AVAILABLE}")]
    else:
        freed = outcome.gpu_bytes_after == 0
        before, after = (size_text(size, NOT_AVAILABLE) for size in (outcome.gpu_bytes_before, outcome.gpu_bytes_after))
        out = [lines.line("GPU memory of the set: ", (f"{before} → {after}", lines.GOOD if freed else lines.WARN))]
    for holder in outcome.gpu_holders:
        out.extend(lines.wrapped(f"still holds GPU memory: {printable(holder)}", width, tone=lines.WARN, first="  "))
    return out


def _left_lines(outcome: Outcome, width: int) -> list[Line]:
    if outcome.op not in (protocol.STOP, protocol.KILL) or not outcome.done or outcome.phase in ("refused", "unknown"):
        return []
    if not outcome.left:
        return [(("Nothing is left of the set.", lines.GOOD),)] if outcome.ok else []
    # Their parents may be gone: only what still hangs together is drawn as a tree.
    alive = {process.pid for process in outcome.left}
    left = [replace(p, why="", depth=p.depth if p.ppid in alive else 0) for p in outcome.left]
    head, rows = table_lines(left, width, signals=False)
    return [((f"Left alive: {count_text(len(outcome.left), 'process')}", lines.BAD),), head, *rows]


def outcome_lines(outcome: Outcome, width: int) -> list[str]:
    """Return the outcome as plain text of at most ``width`` cells a line, for a terminal without a screen."""
    text, tone = headline(outcome)
    shown = [*lines.wrapped(text, width, tone=tone), *target_lines(outcome, width), *aftermath_lines(outcome, width)]
    return lines.plain_all(shown)
