"""When a plan may be confirmed: only a good, fresh plan, over a live link, on fresh data."""

from __future__ import annotations

import math

import pytest

from console.host.actions import Plan, PlannedProcess
from console.host.confirm import MAX_PLAN_AGE_S, STALE_S, objection

TARGET = PlannedProcess(1, 2, "boot", 0, 0, "root", ("a",), "a", "d", "S", 1.0, 1, None, "")
GOOD = Plan("kill", "tree", (TARGET.identity,), (TARGET,))


def test_a_good_plan_may_be_confirmed_up_to_the_limits() -> None:
    assert objection(GOOD, plan_age_s=MAX_PLAN_AGE_S, data_age_s=STALE_S, link_up=True) == ""


@pytest.mark.parametrize(
    ("plan", "plan_age_s", "data_age_s", "link_up", "says"),
    [
        (None, 0.0, 0.1, True, "no plan"),
        (Plan("kill", "tree", (), (TARGET,), refusal="the agent itself"), 0.0, 0.1, True, "refused"),
        (Plan("kill", "tree", (), ()), 0.0, 0.1, True, "No process"),
        (GOOD, 0.0, 0.1, False, "link is down"),
        (GOOD, 0.0, STALE_S + 0.1, True, "data is 3 s old"),
        (GOOD, 0.0, None, True, "not reported"),
        (GOOD, 0.0, math.inf, True, "not reported"),
        (GOOD, MAX_PLAN_AGE_S + 1, 0.1, True, "read 61 s ago"),
    ],
)
def test_anything_else_objects_with_its_reason(
    plan: Plan | None, plan_age_s: float, data_age_s: float | None, link_up: bool, says: str
) -> None:
    assert says in objection(plan, plan_age_s=plan_age_s, data_age_s=data_age_s, link_up=link_up)
