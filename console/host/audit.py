"""The host's audit file as an operator reads it: each action once, with its intent and its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from console.agent.protocol import command_line, printable
from console.host import lines
from console.host.actions import TargetOutcome
from console.host.figures import NOT_AVAILABLE, count_text, moment_text, size_text, took_text
from console.host.lines import Line, Piece
from console.host.outcome_text import target_line

VERIFIED = "verified"
NOT_VERIFIED = "not verified"
REFUSED = "refused"
NO_RESULT = "no result"

_TONES = {VERIFIED: lines.GOOD, NOT_VERIFIED: lines.BAD, REFUSED: lines.WARN, NO_RESULT: lines.BAD}
_MARKS = {VERIFIED: "✓", NOT_VERIFIED: "✗", REFUSED: "⊘", NO_RESULT: "?"}
_TARGET_FIELDS = frozenset(f.name for f in fields(TargetOutcome)) - {"argv"}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action of the audit file. ``at`` is the host's wall clock in seconds, None when no record tells."""

    action_id: str
    action: str
    scope: str = ""
    at: float | None = None
    ssh_user: str = ""
    operator: str = ""
    targets: tuple[TargetOutcome, ...] = ()
    finished: bool = False
    """False when the file holds the intent and no result."""
    ok: bool = False
    phase: str = ""
    refusal: str = ""
    gpu_bytes_before: int | None = None
    gpu_bytes_after: int | None = None
    left: tuple[str, ...] = ()
    """What was left alive, a pid and a command each."""
    elapsed_s: float | None = None
    grace_s: float | None = None

    @property
    def verdict(self) -> str:
        """How it ended, in one or two words."""
        if self.refusal or self.phase == REFUSED:
            return REFUSED
        if not self.finished:
            return NO_RESULT
        return VERIFIED if self.ok else NOT_VERIFIED

    @property
    def who(self) -> str:
        """The operator, and on the host as whom."""
        return f"{self.operator or '?'} as {self.ssh_user or '?'}"

    @property
    def main(self) -> TargetOutcome | None:
        """The first target; None when the records hold none."""
        return self.targets[0] if self.targets else None


def merge_records(records: Iterable[Any]) -> list[AuditEntry]:
    """Return one entry an action id, newest first; a result completes its intent whichever comes first in the file.

    A record that names no action is left out: there is nothing it could be shown as.
    """
    merged: dict[str, tuple[dict[str, Any], bool]] = {}
    for record in records:
        if not isinstance(record, Mapping) or not isinstance(record.get("action_id"), str):
            continue
        action_id = record["action_id"]
        old, finished = merged.get(action_id, ({}, False))
        result = record.get("record") == "result"
        new = {key: value for key, value in record.items() if value is not None}
        # What a result says of the targets is later than what the intent said, wherever the two stand in the file.
        values = {**old, **new} if result or not finished else {**new, **old}
        values["at"] = _earliest(old.get("at"), new.get("at"))
        merged[action_id] = values, finished or result
    entries = [_entry(action_id, values, finished) for action_id, (values, finished) in merged.items()]
    return sorted(entries, key=lambda entry: (entry.at is not None, entry.at or 0.0, entry.action_id), reverse=True)


def _earliest(*moments: Any) -> float | None:
    known = [moment for moment in map(_number, moments) if moment is not None]
    return min(known) if known else None


def _entry(action_id: str, values: Mapping[str, Any], finished: bool) -> AuditEntry:
    def text(name: str) -> str:
        value = values.get(name)
        return value if isinstance(value, str) else ""

    before, after = _number(values.get("gpu_bytes_before")), _number(values.get("gpu_bytes_after"))
    return AuditEntry(
        action_id=action_id,
        action=text("action") or text("op") or "?",
        scope=text("scope"),
        at=_number(values.get("at")),
        ssh_user=text("ssh_user"),
        operator=text("operator"),
        targets=tuple(_target(row) for row in _rows(values.get("targets"))),
        finished=finished,
        ok=values.get("ok") is True,
        phase=text("phase"),
        refusal=text("refusal"),
        gpu_bytes_before=None if before is None else int(before),
        gpu_bytes_after=None if after is None else int(after),
        left=tuple(_named(row) for row in _rows(values.get("left"))),
        elapsed_s=_number(values.get("elapsed_s")),
        grace_s=_number(values.get("grace_s")),
    )


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _rows(value: Any) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, (list, tuple)) else []


def _argv(row: Mapping[str, Any]) -> list[str]:
    argv = row.get("argv")
    return [str(arg) for arg in argv] if isinstance(argv, (list, tuple)) else []


def _named(row: Mapping[str, Any]) -> str:
    return f"{row.get('pid', '?')} {command_line(_argv(row), str(row.get('comm') or '?'))}"


def _target(row: Mapping[str, Any]) -> TargetOutcome:
    pid, ticks = _number(row.get("pid")), _number(row.get("start_ticks"))
    known = {name: row[name] for name in _TARGET_FIELDS - {"pid", "start_ticks"} if row.get(name) is not None}
    return TargetOutcome(pid=int(pid or 0), start_ticks=int(ticks or 0), argv=tuple(_argv(row)), **known)


def matches(entry: AuditEntry, wanted: str) -> bool:
    """Return True when every word of ``wanted`` is in what is shown of ``entry``, whatever the case."""
    told = " ".join(
        (
            entry.action_id,
            entry.action,
            entry.scope,
            entry.who,
            entry.verdict,
            entry.refusal,
            moment_text(entry.at),
            *(f"{target.pid} {command_line(list(target.argv))}" for target in entry.targets),
        )
    ).casefold()
    return all(word in told for word in wanted.casefold().split())


_WHO_CELLS = (14, 28)


def _columns(width: int) -> tuple[int, int]:
    """Return cells for the moment and for the operator in a list of ``width`` cells."""
    return (14, _WHO_CELLS[0]) if width < 100 else (19, _WHO_CELLS[1])


def head_line(width: int) -> Line:
    """Return the head of the list."""
    moment, who = _columns(width)
    text = f"{'WHEN':<{moment}}  {'WHO':<{who}}  {'ACTION':<6}  {'OUTCOME':<14}  TARGET"
    return ((lines.crop(text, width), lines.HEAD),)


def entry_line(entry: AuditEntry, width: int) -> Line:
    """Return an entry in one line of at most ``width`` cells: when, who, what, how it ended, on what."""
    moment, who = _columns(width)
    when = moment_text(entry.at)
    verdict = entry.verdict
    operator = printable(entry.who if width >= 100 else entry.operator or entry.ssh_user or "?")
    lead = f"{lines.pad(when[-moment:], moment)}  {lines.pad(lines.crop(operator, who), who)}  "
    action = f"{lines.crop(printable(entry.action), 6):<6}  "
    outcome = f"{_MARKS[verdict]} {verdict:<12}"
    pieces: tuple[Piece, ...] = ((lead, lines.PLAIN), (action, lines.STRONG), (outcome, _TONES[verdict]))
    room = width - sum(lines.cells(text) for text, _ in pieces) - 2
    return (*pieces, ("  " + lines.crop(_targets_text(entry), room), lines.PLAIN)) if room > 0 else pieces


def _targets_text(entry: AuditEntry) -> str:
    main = entry.main
    if main is None:
        return "no target"
    more = f" +{len(entry.targets) - 1}" if len(entry.targets) > 1 else ""
    return f"{main.pid}{more} {command_line(list(main.argv))}"


def entry_lines(entry: AuditEntry, width: int) -> list[Line]:
    """Return an entry in full: what the records tell of it and of every target."""
    took = "" if entry.elapsed_s is None else f", took {took_text(entry.elapsed_s * 1000)}"
    facts = [
        ("action", f"{printable(entry.action)} ({printable(entry.scope or '?')})  id {printable(entry.action_id)}"),
        ("when", moment_text(entry.at) + took),
        ("who", printable(entry.who)),
        ("grace", "" if entry.grace_s is None or entry.action != "stop" else f"{entry.grace_s:g} s"),
    ]
    out: list[Line] = [
        ((f"{name:<10}", lines.DIM), (part, lines.PLAIN))
        for name, value in facts
        if value
        for part in lines.wrap(value, width - 10)
    ]
    out.append((("outcome   ", lines.DIM), (f"{_MARKS[entry.verdict]} {entry.verdict}", _TONES[entry.verdict])))
    out.extend(_explanation(entry, width))
    out.extend([lines.line(""), ((count_text(len(entry.targets), "process"), lines.HEAD),)])
    digits = max((len(str(target.pid)) for target in entry.targets), default=0)
    out.extend(each for target in entry.targets for each in target_line(target, width, digits))
    return out


def _explanation(entry: AuditEntry, width: int) -> list[Line]:
    out: list[Line] = []
    indent = " " * 10
    if entry.verdict == NO_RESULT:
        text = "The host recorded the intent and no result: its agent ended before the action did."
        out.extend(lines.wrapped(text, width, tone=lines.WARN, first=indent))
    if entry.refusal:
        out.extend(lines.wrapped(printable(entry.refusal), width, tone=lines.WARN, first=indent))
    if entry.gpu_bytes_before is not None or entry.gpu_bytes_after is not None:
        before, after = (size_text(size, NOT_AVAILABLE) for size in (entry.gpu_bytes_before, entry.gpu_bytes_after))
        out.append(((f"{'GPU':<10}", lines.DIM), (f"{before} → {after}", lines.PLAIN)))
    for index, left in enumerate(entry.left):
        out.extend(lines.wrapped(left, width, tone=lines.BAD, first="left      " if index == 0 else indent))
    return out


def audit_lines(entries: Sequence[AuditEntry], width: int) -> list[str]:
    """Return the list as plain text of at most ``width`` cells a line, for a terminal without a screen."""
    if not entries:
        return ["No action is recorded."]
    return lines.plain_all([head_line(width), *(entry_line(entry, width) for entry in entries)])
