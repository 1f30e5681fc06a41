"""Plan and Outcome: what an operator confirms, and what became of it.

A signal is sent from nothing but a :class:`Plan`. The plan is made by the agent from one fresh reading of the host,
frozen when its dialog opens, and carries what the operator was shown of every target: identity, uid and a digest of
the argument vector.
"""

from __future__ import annotations

import getpass
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from console.agent import protocol
from console.agent.protocol import Identity
from console.host.errors import ActionRefused

DEFAULT_GRACE_S = 45.0
"""torchrun gives its workers 30 s between TERM and KILL (pytorch#61602): the grace must outlast it."""

PLAN_DEADLINE_S = 15.0


@dataclass(frozen=True, slots=True)
class PlannedProcess:
    """A process as the plan shows it. ``why`` says how it came into (or stayed out of) the set."""

    pid: int
    start_ticks: int
    boot_id: str
    ppid: int
    uid: int
    user: str
    argv: tuple[str, ...]
    comm: str
    argv_digest: str
    state: str
    age_s: float
    rss_bytes: int
    gpu_bytes: int | None
    why: str
    gpu_count: int = 0
    """On how many GPUs it and its family hold memory, for a process outside the set; 0 when that is not known."""
    depth: int = 0
    sends: tuple[str, ...] = ()
    """Names of the signals this action sends to it, in order; empty when it only waits for its end."""

    @property
    def identity(self) -> Identity:
        """The identity that the signal request carries."""
        return (self.boot_id, self.pid, self.start_ticks)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one action will do to which processes, frozen. ``refusal`` is empty when it may be carried out."""

    action: str
    scope: str
    roots: tuple[Identity, ...]
    targets: tuple[PlannedProcess, ...]
    spared: tuple[PlannedProcess, ...] = ()
    """What the operator may fear for and is not in the set."""
    candidates: tuple[PlannedProcess, ...] = ()
    """GPU holders that look related; never added by themselves."""
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    refusal_kind: str = ""
    grace_s: float = DEFAULT_GRACE_S
    action_id: str = ""
    """Of the audit record that a refused plan leaves; an accepted plan gets its own when it is carried out."""

    @property
    def summary(self) -> str:
        """One line: the signals and to how many processes."""
        count = len(self.targets)
        noun = "process" if count == 1 else "processes"
        if self.action == protocol.STOP:
            waits = f", then waits up to {self.grace_s:g} s for {'it' if count == 1 else f'all {count}'} to end"
            return f"SIGTERM to the main process{waits}"
        name = {protocol.PAUSE: "SIGSTOP", protocol.RESUME: "SIGCONT", protocol.KILL: "SIGKILL"}[self.action]
        return f"{name} to {count} {noun}"


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """What happened to one target.

    ``sent`` is None when it was not signalled; ``state_after`` is "gone" (or "Z") once it ended.
    """

    pid: int
    start_ticks: int
    argv: tuple[str, ...]
    sent: str | None = None
    state_before: str | None = None
    state_after: str | None = None
    verified: bool = False
    reason: str = ""
    ms: float | None = None
    """From the first check of this action to this target's verification, milliseconds."""
    added: bool = False
    """True for a process that was born after the plan and belongs to its set."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state of an action: while it runs (``done`` false) and at its end."""

    action_id: str
    op: str
    ok: bool = False
    done: bool = False
    phase: str = ""
    """checking, sent, waiting, done, refused or unknown (the link broke and the audit file does not tell)."""
    refusal: str = ""
    refusal_kind: str = ""
    targets: tuple[TargetOutcome, ...] = ()
    left: tuple[PlannedProcess, ...] = ()
    """Members of the set that still live (not counting those verified): what `kill what is left` would take."""
    gpu_bytes_before: int | None = None
    gpu_bytes_after: int | None = None
    gpu_holders: tuple[str, ...] = ()
    """What still holds GPU memory of this set, in plain words."""
    elapsed_s: float = 0.0
    grace_s: float = 0.0
    audit: str = ""
    """Empty when the audit record is on disk, else why it is not."""
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "action_id": self.action_id,
            "op": self.op,
            "ok": self.ok,
            "targets": [
                {
                    "pid": t.pid,
                    "start_ticks": t.start_ticks,
                    "argv": list(t.argv),
                    "sent": t.sent,
                    "state_before": t.state_before,
                    "state_after": t.state_after,
                    "verified": t.verified,
                    "reason": t.reason,
                    "added": t.added,
                }
                for t in self.targets
            ],
            "gpu_bytes_before": self.gpu_bytes_before,
            "gpu_bytes_after": self.gpu_bytes_after,
            "gpu_holders": list(self.gpu_holders),
            "phase": self.phase,
            "refusal": self.refusal or None,
            "left": [
                {"pid": p.pid, "start_ticks": p.start_ticks, "argv": list(p.argv), "state": p.state} for p in self.left
            ],
            "elapsed_s": self.elapsed_s,
            "audit": self.audit or "written",
            "note": self.note or None,
        }


class Conversation(Protocol):
    """The part of a link that actions need; :class:`console.host.link.HostLink` is one."""

    async def request(self, op: str, *, deadline_s: float, **arguments: Any) -> dict[str, Any]:
        """Send a request once and return its answer.

        Raises:
            RequestError: the agent answered with an error.
            LinkError: the link is down, broke, or the deadline passed; whether the agent acted is not known.
        """
        ...

    def listen(self, callback: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Call ``callback`` for every later event; return a function that ends it."""
        ...


def operator_name() -> str:
    """Return the operator as user@machine, for the audit file."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "?"
    return f"{user}@{socket.gethostname()}"


def new_action_id() -> str:
    """Return a fresh action id."""
    return secrets.token_hex(8)


def plan_from_wire(answer: Mapping[str, Any], grace_s: float = DEFAULT_GRACE_S) -> Plan:
    """Return the plan in an answer to a ``plan`` request."""
    return Plan(
        action=answer["action"],
        scope=answer["scope"],
        roots=tuple(protocol.identity(r) for r in answer["roots"]),
        targets=_planned(answer.get("targets", ())),
        spared=_planned(answer.get("spared", ())),
        candidates=_planned(answer.get("candidates", ())),
        warnings=tuple(answer.get("warnings", ())),
        refusal=answer.get("refusal", ""),
        refusal_kind=answer.get("refusal_kind", ""),
        grace_s=grace_s,
        action_id=answer.get("action_id", ""),
    )


def outcome_from_wire(answer: Mapping[str, Any]) -> Outcome:
    """Return the outcome in an ``action`` event, in the answer to a ``signal`` request, or in an audit record."""
    values = {name: answer[name] for name in _OUTCOME_FIELDS if name in answer}
    values["targets"] = tuple(
        TargetOutcome(**{**{n: t[n] for n in _TARGET_FIELDS if n in t}, "argv": tuple(t["argv"])})
        for t in answer.get("targets", ())
    )
    values["left"] = _planned(answer.get("left", ()))
    values["gpu_holders"] = tuple(answer.get("gpu_holders", ()))
    return Outcome(**values)


async def make_plan(
    link: Conversation,
    action: str,
    roots: Sequence[Identity],
    *,
    scope: str = protocol.TREE,
    grace_s: float = DEFAULT_GRACE_S,
) -> Plan:
    """Ask the agent for the plan of ``action`` on ``roots``; sends no signal.

    Raises:
        RequestError, LinkError: see :class:`Conversation`.
    """
    answer = await link.request(
        protocol.PLAN,
        deadline_s=PLAN_DEADLINE_S,
        action=action,
        roots=[list(r) for r in roots],
        scope=scope,
        grace_s=grace_s,
    )
    return plan_from_wire(answer, grace_s)


async def carry_out(
    link: Conversation, plan: Plan, on_progress: Callable[[Outcome], None], *, action_id: str | None = None
) -> Outcome:
    """Send ``plan`` once, report every step, and return how it ended. Never retried.

    Raises:
        ActionRefused: the plan itself says it may not be carried out.
        RequestError: the agent could not take the request.
        LinkError: the link broke before the answer; ask :func:`fate_of` after the reconnect.
    """
    if plan.refusal:
        raise ActionRefused(plan.refusal)
    action_id = action_id or new_action_id()

    def on_event(event: Mapping[str, Any]) -> None:
        if event.get("ev") == protocol.ACTION and event.get("action_id") == action_id:
            on_progress(outcome_from_wire(event))

    stop_listening = link.listen(on_event)
    try:
        answer = await link.request(
            protocol.SIGNAL,
            deadline_s=plan.grace_s + 60.0,
            action_id=action_id,
            action=plan.action,
            scope=plan.scope,
            roots=[list(r) for r in plan.roots],
            targets=[{"id": list(t.identity), "uid": t.uid, "argv_digest": t.argv_digest} for t in plan.targets],
            grace_s=plan.grace_s,
        )
    finally:
        stop_listening()
    return outcome_from_wire(answer)


async def fate_of(link: Conversation, action_id: str) -> Outcome | None:
    """Return what the host's audit file says of ``action_id``; None when it never reached the host.

    An outcome with ``phase == "unknown"`` means the agent recorded the intent and no result.
    """
    answer = await link.request(protocol.FATE, deadline_s=PLAN_DEADLINE_S, action_id=action_id)
    found = answer.get("outcome")
    return outcome_from_wire(found) if found else None


def _planned(rows: Sequence[Mapping[str, Any]]) -> tuple[PlannedProcess, ...]:
    return tuple(
        PlannedProcess(
            **{
                **{n: row[n] for n in _PLANNED_FIELDS if n in row},
                "argv": tuple(row["argv"]),
                "sends": tuple(row.get("sends", ())),
            }
        )
        for row in rows
    )


_PLANNED_FIELDS = frozenset(f.name for f in fields(PlannedProcess))
_TARGET_FIELDS = frozenset(f.name for f in fields(TargetOutcome))
_OUTCOME_FIELDS = frozenset(f.name for f in fields(Outcome))
