"""Choosing what an action would do to whom, from one fresh reading of the host. Sends nothing."""

from __future__ import annotations

import os
import uuid
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from console.agent import procfs, protocol, related
from console.agent.ancestry import Ancestry, Key, Kin, choose_set
from console.agent.context import Context
from console.agent.protocol import Identity
from console.agent.scan import Scan

SENDS = {protocol.PAUSE: ("SIGSTOP",), protocol.RESUME: ("SIGCONT",), protocol.KILL: ("SIGKILL",)}


class Chosen(NamedTuple):
    """The set of an action: members in tree order with why they belong, and the reading it was chosen from."""

    members: Dict[Key, str]
    depth: Dict[Key, int]
    live: Dict[int, Kin]
    ancestry: Ancestry


def choose(context: Context, roots: Sequence[Key], scope: str) -> Chosen:
    """Return the set of ``roots`` on the host as it is now."""
    live = Scan().refresh()
    ancestry = context.ancestry().copy()
    ancestry.observe(live)
    present = [key for key in roots if key[0] in live and live[key[0]].start_ticks == key[1]]
    why = dict.fromkeys(present, "target") if scope == protocol.ONLY else choose_set(roots, live, ancestry)
    ordered, depth = _tree_order(present, why, live)
    return Chosen({key: why[key] for key in ordered}, depth, live, ancestry)


def make_plan(context: Context, action: str, scope: str, identities: Sequence[Identity]) -> Dict[str, Any]:
    """Return the answer to a ``plan`` request; one that must not be carried out says why, and is audited."""
    roots = [(pid, start) for _, pid, start in identities]
    plan: Dict[str, Any] = {"action": action, "scope": scope, "roots": [list(i) for i in identities]}
    kind, refusal = _changed_roots(context, identities)
    if not refusal:
        chosen = choose(context, roots, scope)
        plan["targets"] = _targets(context, action, roots, chosen)
        kind, refusal = refuse(context, plan["targets"])
        plan["spared"] = related.spared(context, chosen.members, chosen.live)
        plan["candidates"] = related.candidates(context, roots, chosen.members, chosen.live)
        plan["warnings"] = related.warnings(context, action, roots, plan["targets"], chosen.live)
    plan["refusal_kind"], plan["refusal"] = kind, refusal
    if refusal:
        plan["action_id"] = uuid.uuid4().hex[:16]
        _audit_refusal(context, plan)
    return plan


def refuse(context: Context, targets: Sequence[Dict[str, Any]]) -> Tuple[str, str]:
    """Return (kind, sentence) of why these targets must not be signalled, or ("", "")."""
    if context.no_pidfd:
        return "pidfd", "no signal is sent on this host: %s" % context.no_pidfd
    protected = context.protected()
    for row in targets:
        key, pid = (row["pid"], row["start_ticks"]), row["pid"]
        command = protocol.command_line(row["argv"], row["comm"])[:80]
        if pid == 1:
            return "pid1", "pid 1 is the host's first process: ending or stopping it takes the host down"
        if key in protected:
            return "ours", "%d (%s) is the console's own agent or what it runs under: the link would be cut" % (
                pid,
                command,
            )
        stat = procfs.read_stat(pid)
        if stat is not None and stat.kernel:
            return "kernel", "%d (%s) is a kernel thread: no signal reaches it" % (pid, command)
        credentials = procfs.read_credentials(pid)
        if credentials is not None and not context.may_signal(credentials):
            return "uid", "%d (%s) belongs to %s; %s may not signal it: connect as %s or as root" % (
                pid,
                command,
                context.user(credentials.uid),
                context.user(os.geteuid()),
                context.user(credentials.uid),
            )
    return "", ""


def _changed_roots(context: Context, identities: Sequence[Identity]) -> Tuple[str, str]:
    for boot, pid, start in identities:
        if boot != context.boot_id:
            return "identity", "the host was restarted since %d was shown: it is not the same process" % pid
        stat = procfs.read_stat(pid)
        if stat is None:
            return "identity", "there is no process %d any more: it has ended" % pid
        if stat.start_ticks != start:
            return "identity", "pid %d is another process now (start %d, not %d)" % (pid, stat.start_ticks, start)
    return "", ""


def _targets(context: Context, action: str, roots: Sequence[Key], chosen: Chosen) -> List[Dict[str, Any]]:
    rows = []
    for key, why in chosen.members.items():
        row = context.describe(key, why, chosen.depth[key])
        if row is not None and not (row["state"] in "ZX" and key not in roots):
            row["sends"] = list(_sends(action, key in roots, row["state"]))
            rows.append(row)
    return rows


def _sends(action: str, is_root: bool, state: str) -> Tuple[str, ...]:
    if action != protocol.STOP:
        return SENDS[action]
    # TERM to the main process only: a group-delivered TERM bypasses SGLang's drain. A stopped member would never
    # see its parent's request to end, so the stopped ones are woken after the TERM.
    return (("SIGTERM",) if is_root else ()) + (("SIGCONT",) if state in "Tt" else ())


def _tree_order(
    roots: Sequence[Key], members: Dict[Key, str], live: Dict[int, Kin]
) -> Tuple[List[Key], Dict[Key, int]]:
    """Return the members parents first, roots at the top, and how deep each stands."""
    children: Dict[Optional[Key], List[Key]] = {}
    for key in sorted(members, key=lambda k: (k[1], k[0])):
        parent = live.get(live[key[0]].ppid)
        above = parent.key if parent is not None and parent.key in members and key not in roots else None
        children.setdefault(above, []).append(key)
    tops = children.get(None, [])
    stack = [
        (key, 0 if key in roots else 1)
        for key in reversed([k for k in tops if k in roots] + [k for k in tops if k not in roots])
    ]
    order: List[Key] = []
    depth: Dict[Key, int] = {}
    while stack:
        key, level = stack.pop()
        order.append(key)
        depth[key] = level
        stack.extend((child, level + 1) for child in reversed(children.get(key, [])))
    return order, depth


def _audit_refusal(context: Context, plan: Dict[str, Any]) -> None:
    targets = [
        {
            "pid": t["pid"],
            "start_ticks": t["start_ticks"],
            "argv": t["argv"],
            "uid": t["uid"],
            "user": t["user"],
            "sent": None,
        }
        for t in plan.get("targets", ())
    ]
    if not targets:
        targets = [{"pid": pid, "start_ticks": start, "argv": [], "sent": None} for _, pid, start in plan["roots"]]
    context.record(
        {
            "record": "result",
            "action_id": plan["action_id"],
            "action": plan["action"],
            "scope": plan["scope"],
            "roots": plan["roots"],
            "phase": "refused",
            "ok": False,
            "refusal": plan["refusal"],
            "refusal_kind": plan["refusal_kind"],
            "targets": targets,
        }
    )
