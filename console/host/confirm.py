"""Whether a plan may be confirmed now, and if not, why: the last check before a signal is sent."""

from __future__ import annotations

import math

from console.host.actions import Plan

STALE_S = 3.0
"""Older data than this is not acted on."""

MAX_PLAN_AGE_S = 60.0
"""An older plan must be read again first."""


def objection(plan: Plan | None, *, plan_age_s: float, data_age_s: float | None, link_up: bool) -> str:
    """Return why ``plan`` must not be confirmed now, one sentence; "" when it may be.

    Args:
        plan: what is on the screen, None while there is nothing.
        plan_age_s: since the agent read the plan, in seconds.
        data_age_s: since the host last reported its processes, in seconds; None or infinite when it never did.
        link_up: whether requests reach the host.
    """
    if plan is None:
        return "There is no plan to confirm."
    if plan.refusal:
        return "This is refused: it cannot be confirmed."
    if not plan.targets:
        return "No process is left to act on."
    if not link_up:
        return "The link is down: wait until it is back."
    if data_age_s is None or not math.isfinite(data_age_s):
        return "The host has not reported its processes yet: wait until it has."
    if data_age_s > STALE_S:
        return f"The data is {data_age_s:.0f} s old: wait until the host reports again."
    if plan_age_s > MAX_PLAN_AGE_S:
        return f"This was read {plan_age_s:.0f} s ago: re-read the host before you confirm."
    return ""
