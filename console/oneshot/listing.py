"""`ps`, `gpus` and `audit`: what the host looks like, once."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
from typing import Any

from console.agent import protocol
from console.agent.protocol import printable
from console.exits import CANNOT_RUN, OK
from console.host import lines
from console.host.audit import audit_lines, merge_records
from console.host.errors import LinkError
from console.host.figures import age_text, size_text
from console.host.gpu_lines import driver_line, gpu_lines
from console.host.history import UtilisationHistory
from console.host.lines import crop, pad
from console.host.process_line import command_text
from console.host.state import HostState, Process
from console.host.thresholds import Thresholds
from console.host.tree import TreeView, build_rows
from console.oneshot.hosts import connected, gpus_known, until
from console.oneshot.terminal import say, show, show_json, width

SECOND_READING_S = 10.0


def run_ps(arguments: argparse.Namespace) -> int:
    """List processes; return the exit code."""
    state = asyncio.run(_read(arguments, argv_max=0 if arguments.json else 4096, interval_s=0.5))
    if arguments.json:
        show_json([process_json(state, p) for p in _selected(state, arguments)])
    else:
        show(_ps_lines(state, arguments, width()))
    return OK


def run_gpus(arguments: argparse.Namespace) -> int:
    """List GPUs; return the exit code."""
    state = asyncio.run(_read(arguments))
    if arguments.json:
        driver = dataclasses.asdict(state.driver)
        show_json({"driver": driver, "gpus": [dataclasses.asdict(gpu) for gpu in state.gpus]})
        return OK
    head = driver_line(state.driver, len(state.gpus))
    if state.driver.simulated:
        show(["SIMULATED: no GPU of this machine is shown"])
    if head is not None:
        show(lines.wrap(lines.plain(head), width()))
    history = UtilisationHistory()
    history.add(state.gpus)
    show(lines.plain_all(gpu_lines(state, history, width(), Thresholds())))
    return OK


def run_audit(arguments: argparse.Namespace) -> int:
    """List the actions of the host's audit file; return the exit code."""
    answer = asyncio.run(_audit(arguments))
    if arguments.json:
        show_json(answer)
    else:
        if answer["torn"]:
            say(f"{answer['torn']} damaged lines of {printable(answer['path'])} cannot be read")
        show(audit_lines(merge_records(answer["records"]), width()))
    if answer["error"]:
        say(f"eagle3-console: {printable(answer['path'])} cannot be read: {printable(answer['error'])}")
        return CANNOT_RUN
    return OK


async def _audit(arguments: argparse.Namespace) -> dict[str, Any]:
    async with connected(arguments) as link:
        return await link.request(protocol.AUDIT, deadline_s=15.0, limit=arguments.limit)


async def _read(arguments: argparse.Namespace, **start: Any) -> HostState:
    """Return the host's state once CPU figures (two readings) and GPUs are there."""
    async with connected(arguments, **start) as link:
        first = link.state.procs_t
        with contextlib.suppress(LinkError):
            await until(link, lambda: link.state.procs_t > first, SECOND_READING_S, "no second reading")
        await gpus_known(link)
        return link.state


def process_json(state: HostState, process: Process) -> dict[str, Any]:
    """Return one process as `ps --json` prints it; ``gpu_bytes`` is null when it holds none."""
    pause = state.pause_of(process)
    return {
        "pid": process.pid,
        "ppid": process.ppid,
        "start_ticks": process.start_ticks,
        "boot_id": state.identity(process)[0],
        "uid": process.uid,
        "user": process.user,
        "state": process.state,
        "rss_bytes": process.rss_bytes,
        "cpu_percent": process.cpu_percent,
        "gpu_bytes": state.gpu_bytes().get(process.pid),
        "age_s": round(state.age_s(process), 2),
        "argv": list(process.argv),
        "session": process.session,
        "pgid": process.pgid,
        "threads": process.threads,
        "comm": process.comm,
        "exe": process.exe,
        "cgroup": process.cgroup,
        "started_at": process.started_at,
        "kernel": process.kernel,
        "ours": process.ours,
        "paused_since": pause.since if pause else None,
        "paused_by": (pause.by or None) if pause else None,
    }


def _selected(state: HostState, arguments: argparse.Namespace) -> list[Process]:
    rows = build_rows(state, _view(arguments, kernel=True))
    return [row.process for row in rows if not row.context]


def _view(arguments: argparse.Namespace, kernel: bool) -> TreeView:
    return TreeView(filter=arguments.text, only_gpu=arguments.gpu, only_mine=arguments.mine, kernel=kernel, sort="pid")


def _ps_lines(state: HostState, arguments: argparse.Namespace, cells: int) -> list[str]:
    held = state.gpu_bytes()
    out = [f"{'PID':>8} {'USER':<10} {'ST':<2} {'GPU':>7} {'CPU%':>6} {'RSS':>7} {'AGE':>8} COMMAND"]
    view = _view(arguments, arguments.kernel)
    for row in build_rows(state, view):
        if row.context:
            continue
        p = row.process
        cpu = "-" if p.cpu_percent is None else f"{p.cpu_percent:.0f}"
        left = (
            f"{p.pid:>8} {pad(crop(printable(p.user), 10), 10)} {p.state:<2} {size_text(held.get(p.pid), '-'):>7} "
            f"{cpu:>6} {size_text(p.rss_bytes):>7} {age_text(state.age_s(p)):>8} "
        )
        # Without the processes in between, lines of a tree would lead nowhere.
        out.append(crop(left + ("" if view.narrowed else row.guide) + command_text(p), cells))
    return out
