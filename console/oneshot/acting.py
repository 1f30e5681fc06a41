"""`pause`, `resume`, `stop` and `kill`: the same plan, the same signals and the same proof as in the console."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses

from console.agent.protocol import Identity
from console.exits import BAD_INPUT, LINK, NOT_VERIFIED, OK, REFUSED
from console.host.action_run import ActionRun
from console.host.actions import Outcome, Plan, TargetOutcome, make_plan
from console.host.link import HostLink
from console.host.outcome_text import headline, outcome_lines
from console.host.plan_text import plan_lines
from console.oneshot.hosts import connected, gpus_known
from console.oneshot.terminal import confirmed, interactive, say, show, show_json, width

FATE_WITHIN_S = 60.0
"""So long a broken link is waited for, to learn what became of the action."""


def run_action(arguments: argparse.Namespace) -> int:
    """Plan, ask, act and prove; return the exit code."""
    if not arguments.yes and not interactive():
        say(f"eagle3-console: {arguments.action} has no terminal to ask on: look at `ps`, then add --yes")
        return BAD_INPUT
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with connected(arguments, argv_max=0 if arguments.json else 4096) as link:
        await gpus_known(link)
        plan = await make_plan(
            link, arguments.action, [_root(link, arguments)], scope=arguments.scope, grace_s=arguments.grace
        )
        if plan.refusal:
            _report(_refused(plan), arguments.json)
            return REFUSED
        if not arguments.yes:
            for line in plan_lines(plan, width()):
                say(line)
            if not await confirmed("Do it?"):
                say("Cancelled: nothing was sent.")
                return REFUSED
        return await _carry_out(link, plan, arguments.json)


async def _carry_out(link: HostLink, plan: Plan, as_json: bool) -> int:
    run = ActionRun(link, plan)
    told = ""

    def tell() -> None:
        nonlocal told
        text = run.trouble or headline(run.outcome, run.elapsed_s)[0]
        if text != told and not run.finished and (run.trouble or interactive()):
            told = text
            say(text)

    run.watch(tell)
    try:
        async with asyncio.timeout(plan.grace_s + FATE_WITHIN_S + 60.0):
            await run.run()
    except TimeoutError:
        say(f"What became of action {run.action_id} is not known: read `audit` when the host answers again.")
        return LINK
    if run.never_sent:
        say(f"eagle3-console: {run.trouble}")
        return LINK
    _report(run.outcome, as_json)
    if run.outcome.phase == "unknown":
        return LINK
    if run.outcome.refusal:
        return REFUSED
    return OK if run.outcome.ok else NOT_VERIFIED


def _root(link: HostLink, arguments: argparse.Namespace) -> Identity:
    """Return the identity of PID as `--start-ticks` or the list has it.

    A pid that is not in the list gets a start that no process has: the agent then refuses, and its audit file says so.
    """
    process = link.state.processes.get(arguments.pid)
    boot_id = link.state.hello.boot_id if link.state.hello else ""
    listed = process.start_ticks if process is not None else 0
    return (boot_id, arguments.pid, listed if arguments.start_ticks is None else arguments.start_ticks)


def _refused(plan: Plan) -> Outcome:
    """Return the outcome of a plan that was refused before anything was sent."""
    shown: list[tuple[int, int, tuple[str, ...], str | None]]
    shown = [(t.pid, t.start_ticks, t.argv, t.state) for t in plan.targets]
    shown = shown or [(pid, start, (), None) for _, pid, start in plan.roots]
    targets = tuple(
        TargetOutcome(pid, start, argv, state_before=state, state_after=state, reason=plan.refusal)
        for pid, start, argv, state in shown
    )
    return Outcome(
        plan.action_id,
        plan.action,
        done=True,
        phase="refused",
        refusal=plan.refusal,
        refusal_kind=plan.refusal_kind,
        targets=targets,
    )


def _report(outcome: Outcome, as_json: bool) -> None:
    if as_json:
        show_json(outcome.as_json())
        return
    shown = dataclasses.replace(outcome, targets=()) if outcome.refusal else outcome
    show(outcome_lines(shown, width()))
