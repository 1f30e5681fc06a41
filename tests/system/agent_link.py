"""A link with the real agent, as the console keeps one: for what a single command is over too soon."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from console.host.actions import Outcome, Plan, carry_out, make_plan
from console.host.backoff import Backoff
from console.host.bootstrap import build_bundle
from console.host.connect import HostSpec, start_arguments
from console.host.link import HostLink
from console.host.session import Pace
from console.host.ssh import SshChannel, open_ssh, parse_target
from tests.system.console_cli import identity_of
from tests.system.operator import DEADLINE_S, Operator, until
from tests.system.sshd import SshdServer

PATIENT = Pace(hello_s=60.0, start_s=60.0, ping_every_s=0.2, ping_deadline_s=30.0)
SOON = Backoff(first_s=0.01, most_s=0.1)


def link_over_ssh(
    sshd: SshdServer,
    *,
    port: int | None = None,
    python: str = sys.executable,
    pace: Pace = PATIENT,
    modules: Mapping[str, str] | None = None,
    **start: Any,
) -> HostLink:
    """Return a link to the agent behind ``sshd``, or behind a proxy at ``port``; ``start`` replaces its arguments."""
    bundle = build_bundle(modules)

    async def open_channel() -> SshChannel:
        return await open_ssh(
            parse_target(f"{sshd.user}@127.0.0.1:{port or sshd.port}"),
            bundle,
            Operator(accept=True),
            python=python,
            identity_files=[sshd.client_key_path],
            deadline_s=DEADLINE_S,
        )

    arguments = {**start_arguments(HostSpec(name="gpu1", interval_s=0.2)), **start}
    return HostLink(open_channel, start=arguments, name="gpu1", pace=pace, backoff=SOON)


@asynccontextmanager
async def up(link: HostLink) -> AsyncIterator[HostLink]:
    """Run ``link`` while the body runs, which begins with the host's whole list there."""
    task = asyncio.create_task(link.run())
    try:
        await link.wait_up(DEADLINE_S)
        await until(lambda: link.state.complete, "the whole list has arrived")
        yield link
    finally:
        await link.close()
        await task


async def plan_for(link: HostLink, action: str, pid: int, **options: Any) -> Plan:
    """Return the plan of ``action`` on the process that is ``pid`` now."""
    return await make_plan(link, action, [identity_of(pid)], **options)


async def act(link: HostLink, action: str, pid: int, **options: Any) -> Outcome:
    """Plan an action and carry it out."""
    plan = await plan_for(link, action, pid, **options)
    assert not plan.refusal, plan.refusal
    return await carry_out(link, plan, lambda outcome: None)
