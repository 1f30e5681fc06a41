"""What stands around the set of an action: what stays up, what looks related, and what to be warned of."""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from console.agent import procfs, protocol
from console.agent.ancestry import Key, Kin
from console.agent.context import Context

SPARED_SHOWN = 8
CANDIDATES_SHOWN = 20


def spared(context: Context, members: Collection[Key], live: Mapping[int, Kin]) -> List[Dict[str, Any]]:
    """Return the GPU users outside the set, largest first; a family is one row with the family's memory."""
    memory = context.gpu_memory() or {}
    protected = context.protected()
    held: Dict[Key, int] = {}
    tops: Dict[Key, Key] = {}
    for key in context.listed_by_nvml() | set(memory):
        kin = live.get(key[0])
        if kin is None or kin.start_ticks != key[1] or key in members:
            continue
        top = _top_of_family(kin, members, protected, live)
        tops[key] = top
        held[top] = held.get(top, 0) + memory.get(key, 0)
    gpus = _gpus_of(context)
    on: Dict[Key, Set[int]] = {}
    for key, top in tops.items():
        on.setdefault(top, set()).update(gpus.get(key, ()))
    rows = []
    for key in sorted(held, key=lambda k: -held[k])[:SPARED_SHOWN]:
        row = context.describe(key, "holds GPU memory")
        if row is not None:
            # A driver that gives no figure for a process does not make it hold nothing.
            row["gpu_bytes"] = held[key] or None
            row["gpu_count"] = len(on[key])
            rows.append(row)
    return rows


def candidates(
    context: Context, roots: Sequence[Key], members: Collection[Key], live: Mapping[int, Kin]
) -> List[Dict[str, Any]]:
    """Return GPU holders outside the set that look related to a root; they are offered, never added by themselves."""
    listed = context.listed_by_nvml()
    outside = [kin for kin in live.values() if kin.key not in members and kin.pid > 1]
    devices = context.device_holders([kin.pid for kin in outside])
    protected = context.protected()
    rows = []
    for kin in outside:
        if (kin.key not in listed and kin.pid not in devices) or kin.key in protected:
            continue
        reason = next((r for r in (_relation(root, kin, live) for root in roots) if r), "")
        row = context.describe(kin.key, reason) if reason else None
        if row is not None:
            rows.append(row)
    return rows[:CANDIDATES_SHOWN]


def warnings(
    context: Context, action: str, roots: Sequence[Key], targets: Sequence[Dict[str, Any]], live: Mapping[int, Kin]
) -> List[str]:
    """Return what the operator should know before the key is pressed, most important first."""
    found: List[str] = []
    if action == protocol.PAUSE:
        found += _pause_warnings(context, roots, targets, live)
    users = sorted({row["user"] for row in targets[1:] if row["uid"] != targets[0]["uid"]}) if targets else []
    if users:
        found.append("the set holds processes of other users: %s" % ", ".join(users))
    stuck = [str(row["pid"]) for row in targets if row["state"] == "D"]
    if stuck:
        found.append("%s in uninterruptible sleep (D): the signal works only when the kernel lets go" % _listed(stuck))
    traced = [str(row["pid"]) for row in targets if row["state"] == "t"]
    if traced:
        found.append("%s held by a debugger or profiler" % _listed(traced))
    if action == protocol.STOP and any(row["state"] in "Tt" for row in targets):
        found.append("paused processes are woken (SIGCONT) right after SIGTERM, else it would stay pending")
    for root in roots:
        launcher = _launcher_of(root, live)
        if launcher:
            found.append(
                "%d is a worker of torchrun %d, which restarts it or ends the whole job: %d is the one to stop"
                % (root[0], launcher, launcher)
            )
    audit = context.audit.writable()
    if audit:
        found.append("%s: this action will leave no record on the host" % audit)
    return found


def _pause_warnings(
    context: Context, roots: Sequence[Key], targets: Sequence[Dict[str, Any]], live: Mapping[int, Kin]
) -> List[str]:
    found: List[str] = []
    devices = context.device_holders([row["pid"] for row in targets])
    listed = context.listed_by_nvml()
    on_gpu = [row["pid"] for row in targets if (row["pid"], row["start_ticks"]) in listed or row["pid"] in devices]
    if on_gpu:
        found.append(
            "%d of these %s GPU memory: a rank paused for about 8 min is aborted by NCCL's monitor when it wakes, "
            "an SGLang server after 5 min by its watchdog" % (len(on_gpu), "holds" if len(on_gpu) == 1 else "hold")
        )
    for root in roots:
        kin = live.get(root[0])
        if kin is not None and kin.session != kin.pid:
            found.append(
                "%d is not in a session of its own: when the leader of its session (%d, often a shell) ends, the "
                "kernel kills or wakes it" % (root[0], kin.session)
            )
    return found


def _gpus_of(context: Context) -> Dict[Key, Set[int]]:
    """Return on which GPUs NVML lists each confirmed process."""
    found: Dict[Key, Set[int]] = {}
    for gpu in context.gpus.snapshot()["gpus"] if context.gpus is not None else ():
        for process in gpu.get("processes") or ():
            found.setdefault((process["pid"], process["start_ticks"]), set()).add(gpu["index"])
    return found


def _top_of_family(kin: Kin, members: Collection[Key], protected: Set[Key], live: Mapping[int, Kin]) -> Key:
    """Return the topmost ancestor in the same session as the holder, neither ours nor in the set."""
    top = kin
    for _ in range(64):
        parent = live.get(top.ppid)
        if (
            parent is None
            or parent.pid <= 1
            or parent.session != top.session
            or parent.key in members
            or parent.key in protected
        ):
            break
        top = parent
    return top.key


def _relation(root: Key, kin: Kin, live: Mapping[int, Kin]) -> str:
    main = live.get(root[0])
    if main is None or main.start_ticks != root[1]:
        return ""
    if kin.session == main.session and kin.session not in live and _tty(kin.pid) == 0:
        return "same session as %d, whose leader has ended" % main.pid
    if kin.start_ticks < main.start_ticks or _uid(kin.pid) != _uid(main.pid):
        return ""
    if _argv_root(kin.pid) == _argv_root(main.pid) is not None:
        return "same program as %d, started after it" % main.pid
    folder = procfs.read_link(main.pid, "cwd")
    if folder and folder != "/" and procfs.read_link(kin.pid, "cwd") == folder:
        return "same folder as %d, started after it" % main.pid
    return ""


def _tty(pid: int) -> Optional[int]:
    stat = procfs.read_stat(pid)
    return stat.tty if stat is not None else None


def _uid(pid: int) -> Optional[int]:
    credentials = procfs.read_credentials(pid)
    return credentials.uid if credentials is not None else None


def _argv_root(pid: int) -> Optional[Tuple[str, ...]]:
    """Return the program of a process: what runs, and for an interpreter what it runs."""
    argv = procfs.split_cmdline(procfs.read_cmdline(pid) or b"")
    return tuple(argv[:2]) if len(argv) > 1 else None


def _launcher_of(root: Key, live: Mapping[int, Kin]) -> Optional[int]:
    kin = live.get(root[0])
    argv = procfs.split_cmdline(procfs.read_cmdline(kin.ppid) or b"") if kin is not None and kin.ppid > 1 else []
    names = [arg.rsplit("/", 1)[-1] for arg in argv[:4]]
    launchers = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic")
    return kin.ppid if kin is not None and any(name in launchers for name in names) else None


def _listed(pids: List[str]) -> str:
    shown = ", ".join(pids[:5]) + (" and %d more" % (len(pids) - 5) if len(pids) > 5 else "")
    return "%s %s" % (shown, "is" if len(pids) == 1 else "are")
