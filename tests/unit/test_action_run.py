"""ActionRun: sends once, and over a broken link finds out what became of it instead of sending again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from console.agent import protocol
from console.host.action_run import ActionRun
from console.host.actions import Outcome, Plan, PlannedProcess, TargetOutcome
from console.host.errors import LinkError, LinkRefused, RequestError


def planned(pid: int) -> PlannedProcess:
    return PlannedProcess(
        pid, pid * 10, "boot", 1, 1000, "mona", ("job", str(pid)), "job", f"digest-{pid}", "S", 9.0, 1, None, ""
    )


def plan(action: str = "stop", **changes: Any) -> Plan:
    values: dict[str, Any] = {"roots": (planned(7).identity,), "targets": (planned(7), planned(8)), **changes}
    return Plan(action, "tree", **values)


def answer(action: str = "stop", **changes: Any) -> dict[str, Any]:
    targets = [
        {
            "pid": pid,
            "start_ticks": pid * 10,
            "argv": ["job"],
            "sent": "SIGTERM",
            "state_after": "gone",
            "verified": True,
        }
        for pid in (7, 8)
    ]
    return {
        "action_id": "ab12cd",
        "op": action,
        "ok": True,
        "done": True,
        "phase": "done",
        "targets": targets,
        **changes,
    }


class Link:
    """Answers each op from a list in turn; an exception in the list is raised."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.waits: list[Any] = []
        self.callback: Callable[[Mapping[str, Any]], None] | None = None
        self.events: list[dict[str, Any]] = []

    async def request(self, op: str, *, deadline_s: float, **arguments: Any) -> dict[str, Any]:
        self.requests.append((op, arguments))
        if op == protocol.SIGNAL and self.callback:
            for event in self.events:
                self.callback(event)
        await asyncio.sleep(0)
        given = self.answers[op].pop(0)
        if isinstance(given, Exception):
            raise given
        return dict(given)

    def listen(self, callback: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        self.callback = callback
        return lambda: setattr(self, "callback", None)

    async def wait_up(self, deadline_s: float) -> None:
        if self.waits:
            raise self.waits.pop(0)

    def count(self, op: str) -> int:
        return sum(each == op for each, _ in self.requests)


async def finished(link: Link, made: Plan | None = None) -> ActionRun:
    run = ActionRun(link, made or plan(), action_id="ab12cd", retry_s=0.0)
    await asyncio.wait_for(run.run(), 20)
    assert run.finished
    return run


async def test_a_good_end_is_the_hosts_answer_and_the_request_holds_the_frozen_plan() -> None:
    link = Link(signal=[answer()])
    run = await finished(link)
    assert run.outcome.ok and run.trouble == "" and not run.never_sent
    assert link.requests[0][1]["targets"] == [
        {"id": ["boot", 7, 70], "uid": 1000, "argv_digest": "digest-7"},
        {"id": ["boot", 8, 80], "uid": 1000, "argv_digest": "digest-8"},
    ]
    assert link.requests[0][1]["action_id"] == "ab12cd"


async def test_progress_of_this_action_alone_reaches_the_watchers() -> None:
    link = Link(signal=[answer()])
    mine = answer(phase="waiting", done=False, ok=False)
    link.events = [{"ev": "action", **answer(), "action_id": "other"}, {"ev": "action", **mine}]
    seen: list[str] = []
    run = ActionRun(link, plan(), action_id="ab12cd")
    stop = run.watch(lambda: seen.append(run.outcome.phase))
    await run.run()
    assert seen == ["waiting", "done"]
    stop()


async def test_a_lost_link_asks_the_audit_file_and_never_sends_again() -> None:
    link = Link(signal=[LinkError("broke")], fate=[{"outcome": answer()}])
    run = await finished(link)
    assert run.outcome.ok
    assert link.count("signal") == 1
    assert link.requests[-1] == ("fate", {"action_id": "ab12cd"})


async def test_nothing_in_the_audit_file_means_nothing_was_sent() -> None:
    run = await finished(Link(signal=[LinkError("broke")], fate=[{"outcome": None}]))
    assert run.never_sent
    assert run.trouble == "The request never reached the host: nothing was sent."
    assert run.alive() == ()


async def test_an_intent_without_a_result_stays_unknown() -> None:
    run = await finished(
        Link(signal=[LinkError("broke")], fate=[{"outcome": answer(phase="unknown", ok=False, done=True)}])
    )
    assert run.outcome.phase == "unknown" and not run.outcome.ok and not run.never_sent


async def test_it_waits_for_the_link_as_long_as_it_takes() -> None:
    link = Link(signal=[LinkError("broke")], fate=[LinkError("again"), {"outcome": answer()}])
    link.waits = [LinkError("no answer"), LinkRefused("key changed")]
    run = await finished(link)
    assert run.outcome.ok
    assert (link.count("signal"), link.count("fate")) == (1, 2)


@pytest.mark.parametrize("kind", [protocol.BAD_REQUEST, protocol.REFUSED])
async def test_a_request_the_agent_turned_down_was_not_carried_out(kind: str) -> None:
    link = Link(signal=[RequestError(kind, "no pidfd on this kernel")])
    run = await finished(link)
    assert run.never_sent and "no pidfd on this kernel" in run.trouble
    assert link.count("fate") == 0


@pytest.mark.parametrize(
    "failure", [RequestError(protocol.INTERNAL, "disk"), {"targets": "nonsense"}, {"targets": [{}]}]
)
async def test_after_a_failure_that_may_have_come_late_the_audit_file_decides(failure: Any) -> None:
    link = Link(signal=[failure], fate=[{"outcome": answer(ok=False)}])
    run = await finished(link)
    assert link.count("fate") == 1 and link.count("signal") == 1
    assert not run.never_sent and run.outcome.done and not run.outcome.ok


async def test_a_host_that_cannot_tell_leaves_it_unknown() -> None:
    run = await finished(
        Link(signal=[LinkError("broke")], fate=[RequestError("internal", "audit.jsonl: permission denied")])
    )
    assert run.outcome.phase == "unknown"
    assert "permission denied" in run.trouble


async def test_asking_again_reads_and_sends_nothing() -> None:
    link = Link(signal=[LinkError("broke")], fate=[{"outcome": answer(phase="unknown")}, {"outcome": answer()}])
    run = await finished(link)
    await run.ask_again()
    assert run.outcome.ok and link.count("signal") == 1


async def test_a_refused_plan_is_not_even_requested() -> None:
    link = Link()
    run = await finished(link, plan(refusal="the agent itself"))
    assert run.never_sent and link.requests == []


async def test_alive_is_what_the_host_lists_as_left() -> None:
    row = {
        f: getattr(planned(8), f)
        for f in ("pid", "start_ticks", "boot_id", "ppid", "uid", "user", "comm", "argv_digest")
    }
    left = {**row, "argv": ["job"], "state": "S", "age_s": 1.0, "rss_bytes": 1, "gpu_bytes": None, "why": ""}
    run = await finished(Link(signal=[answer(ok=False, left=[left])]))
    assert run.alive() == (planned(8).identity,)


async def test_while_a_stop_waits_alive_is_what_is_not_verified_gone() -> None:
    run = ActionRun(Link(), plan(), action_id="ab12cd")
    assert run.alive() == (planned(7).identity, planned(8).identity)
    run.outcome = Outcome("ab12cd", "stop", phase="waiting", targets=(_gone(7), _alive(8)))
    assert run.alive() == (planned(8).identity,)


@pytest.mark.parametrize("action", ["pause", "resume"])
async def test_after_a_pause_there_is_nothing_to_kill(action: str) -> None:
    run = await finished(Link(signal=[answer(action, ok=False)]), plan(action))
    assert run.alive() == ()


def _gone(pid: int) -> TargetOutcome:
    return TargetOutcome(pid, pid * 10, ("job",), state_after="gone", verified=True)


def _alive(pid: int) -> TargetOutcome:
    return TargetOutcome(pid, pid * 10, ("job",), state_after="S")
