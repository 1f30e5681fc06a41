"""Pause: from the key that confirms a plan to every target verified as stopped: 150 ms p99 over loopback SSH."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil
import pytest

from console.agent import protocol
from console.host.actions import Outcome, Plan, carry_out, make_plan
from console.host.connect import HostSpec, make_link
from console.host.link import HostLink
from console.host.prompts import NoPrompts
from tests.bench.bench_host import BenchHost
from tests.bench.crowd import MEMBERS
from tests.bench.figures import Limit, Table, percentile
from tests.system.agent_link import up
from tests.system.console_cli import identity_of

MOST_P99_MS = 150.0
BY_HAND = "`kill -STOP; ps -e` over SSH"
MOST_OF_BY_HAND = 150.0
"""Of the medians, in %."""
REPETITIONS = 100
SETTLED_S = 0.05
"""Between two actions, as no operator is faster."""


@dataclass
class Times:
    """Milliseconds of every repetition."""

    plan: list[float] = field(default_factory=list)
    stopped: list[float] = field(default_factory=list)
    family: list[float] = field(default_factory=list)
    by_hand: list[float] = field(default_factory=list)

    @property
    def both(self) -> list[float]:
        """Plan and pause together: what one waits who confirms at once."""
        return [plan + stopped for plan, stopped in zip(self.plan, self.stopped, strict=True)]


def _ms_since(began: float) -> float:
    return (time.perf_counter() - began) * 1000.0


async def _acted(link: HostLink, action: str, pid: int, *, into: Times | None = None) -> float:
    """Plan and carry out ``action``; return the milliseconds from the confirmation to the verified outcome."""
    began = time.perf_counter()
    plan: Plan = await make_plan(link, action, [identity_of(pid)])
    planned_ms = _ms_since(began)
    assert not plan.refusal, plan.refusal
    shown: list[Outcome] = []
    began = time.perf_counter()
    outcome = await carry_out(link, plan, shown.append)
    acted_ms = _ms_since(began)
    assert outcome.ok and all(target.verified for target in outcome.targets), outcome
    if into is not None:
        into.plan.append(planned_ms)
    return acted_ms


async def _measure(host: BenchHost, target: int, leader: int) -> Times:
    spec = HostSpec(
        name="gpu1",
        address=host.address,
        python=host.python,
        identity_files=(host.sshd.client_key_path,),
        known_hosts=host.home / ".ssh/known_hosts",
    )
    times = Times()
    async with up(make_link(spec, NoPrompts())) as link:
        for _ in range(REPETITIONS):
            times.stopped.append(await _acted(link, protocol.PAUSE, target, into=times))
            assert psutil.Process(target).status() == psutil.STATUS_STOPPED
            await _acted(link, protocol.RESUME, target)
            await asyncio.sleep(SETTLED_S)
        for _ in range(REPETITIONS // 5):
            times.family.append(await _acted(link, protocol.PAUSE, leader))
            await _acted(link, protocol.RESUME, leader)
        await _by_hand(host, target, times.by_hand.append)
    return times


async def _by_hand(host: BenchHost, target: int, note: Callable[[float], None]) -> None:
    """Time what an operator does over an open connection: stop it, then list all to see it stand and nothing new."""
    import asyncssh

    async with asyncssh.connect(
        "127.0.0.1",
        host.sshd.port,
        username=host.sshd.user,
        client_keys=[str(host.sshd.client_key_path)],
        known_hosts=asyncssh.import_known_hosts(host.sshd.known_hosts_line),
        config=None,
    ) as connection:
        for _ in range(REPETITIONS):
            began = time.perf_counter()
            done = await connection.run(f"kill -STOP {target}; ps -eo pid,ppid,pgid,sid,stat", check=True)
            note(_ms_since(began))
            assert str(target) in str(done.stdout)
            await connection.run(f"kill -CONT {target}", check=True)


async def test_key_to_stopped(host: BenchHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(host.home))
    times = await _measure(host, host.crowd.member(), host.crowd.leaders()[-1])
    ours, by_hand = percentile(times.stopped, 50), percentile(times.by_hand, 50)
    limits = [
        Limit("p99, one target", percentile(times.stopped, 99), MOST_P99_MS, "ms"),
        Limit(f"p50 … of {BY_HAND}", 100.0 * ours / by_hand, MOST_OF_BY_HAND, "%"),
    ]
    rows = [
        ("p50, one target", ours, "ms"),
        ("p99 of the plan before it", percentile(times.plan, 99), "ms"),
        ("p50 of the plan before it", percentile(times.plan, 50), "ms"),
        ("p99 of plan and pause together", percentile(times.both, 99), "ms"),
        (f"p50, {1 + MEMBERS} targets", percentile(times.family, 50), "ms"),
        (f"highest, {1 + MEMBERS} targets", max(times.family), "ms"),
        (f"p50 of {BY_HAND}", by_hand, "ms"),
        (f"p99 of {BY_HAND}", percentile(times.by_hand, 99), "ms"),
    ]
    Table(f"Key → verified T over loopback SSH, {REPETITIONS} times", limits, rows).check()
