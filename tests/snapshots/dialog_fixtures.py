"""Hosts, plans and outcomes for the tests of dialogs, on top of the scripted link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from console.agent import protocol
from console.host.errors import LinkError
from console.host.link import UP
from console.host.state import Process
from tests.scripted import (
    BOOT_ID,
    CLIENT_PID,
    GIB,
    MIB,
    SERVER_PID,
    UPTIME_S,
    WALL,
    ScriptedLink,
    identity_of,
    sample_state,
)

ACTION_ID = "ab12cd34ef560718"


class DialogLink(ScriptedLink):
    """A scripted link that can be waited for."""

    async def wait_up(self, deadline_s: float) -> None:
        """Return once the status is live; a LinkError after ``deadline_s``."""
        end = asyncio.get_running_loop().time() + deadline_s
        while self.status.phase != UP:
            if asyncio.get_running_loop().time() > end:
                raise LinkError("the host does not answer")
            await asyncio.sleep(0.005)

    def sent(self) -> list[dict[str, Any]]:
        """Return the arguments of every signal request so far."""
        return [arguments for op, arguments in self.requests if op == protocol.SIGNAL]


class Clock:
    """A monotonic clock that goes only when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class Host(App[None]):
    """An app with one screen on top; ``result`` is what it returned."""

    def __init__(self, screen: Screen[Any], theme: str = "textual-dark") -> None:
        super().__init__()
        self.first = screen
        self.theme = theme
        self.result: Any = "nothing yet"

    def compose(self) -> ComposeResult:
        yield Static("")

    def on_mount(self) -> None:
        self.push_screen(self.first, self._returned)

    def _returned(self, result: Any) -> None:
        self.result = result


async def until(pilot: Pilot[Any], condition: Callable[[], bool], deadline_s: float = 20.0) -> None:
    """Let the app work until ``condition`` holds; an AssertionError after ``deadline_s``."""
    end = asyncio.get_running_loop().time() + deadline_s
    while not condition():
        assert asyncio.get_running_loop().time() < end, "the condition never came true"
        await pilot.pause()
        await asyncio.sleep(0.005)


def planned(
    process: Process, *, why: str = "", depth: int = 0, sends: tuple[str, ...] = (), **changes: Any
) -> dict[str, Any]:
    """Return a row of a plan as the agent sends it."""
    row = {
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "boot_id": BOOT_ID,
        "ppid": process.ppid,
        "uid": process.uid,
        "user": process.user,
        "argv": list(process.argv),
        "comm": process.comm,
        "argv_digest": process.argv_digest,
        "state": process.state,
        "age_s": UPTIME_S - process.start_ticks / 100,
        "rss_bytes": process.rss_bytes,
        "gpu_bytes": None,
        "why": why,
        "depth": depth,
        "sends": list(sends),
    }
    return {**row, **changes}


SENDS = {
    protocol.PAUSE: ("SIGSTOP",),
    protocol.RESUME: ("SIGCONT",),
    protocol.KILL: ("SIGKILL",),
    protocol.STOP: ("SIGTERM",),
}


def client_rows(action: str) -> list[dict[str, Any]]:
    """Return the client and its two helpers as the targets of ``action``."""
    procs = sample_state().processes
    rest = () if action == protocol.STOP else SENDS[action]
    return [
        planned(procs[CLIENT_PID], why="the target", sends=SENDS[action]),
        planned(procs[121340], why="a child of 121338", depth=1, sends=rest),
        planned(procs[121341], why="a child of 121338", depth=1, sends=rest),
    ]


def server_row(**changes: Any) -> dict[str, Any]:
    """Return the SGLang server as a process that a plan spares."""
    return planned(sample_state().processes[SERVER_PID], gpu_bytes=593 * GIB, **changes)


def candidate_row() -> dict[str, Any]:
    """Return a GPU holder that looks related."""
    return planned(
        sample_state().processes[131072],
        why="same user and working directory, started after the target",
        gpu_bytes=11 * GIB,
    )


def plan_answer(
    action: str = protocol.PAUSE,
    *,
    targets: list[dict[str, Any]] | None = None,
    scope: str = protocol.TREE,
    **changes: Any,
) -> dict[str, Any]:
    """Return the agent's answer to a ``plan`` request for the client."""
    answer = {
        "action": action,
        "scope": scope,
        "roots": [list(identity_of(sample_state(), CLIENT_PID))],
        "targets": client_rows(action) if targets is None else targets,
        "spared": [server_row()],
        "candidates": [],
        "warnings": [],
        "refusal": "",
    }
    return {**answer, **changes}


def many_rows(count: int) -> list[dict[str, Any]]:
    """Return a launcher with ``count - 1`` workers below it, three deep."""
    rows = client_rows(protocol.KILL)[:1]
    for index in range(1, count):
        pid = 200_000 + index
        rows.append(
            {
                **rows[0],
                "pid": pid,
                "ppid": CLIENT_PID if index % 3 == 1 else pid - 1,
                "start_ticks": rows[0]["start_ticks"] + index,
                "argv": ["python3", "worker.py", "--rank", str(index)],
                "argv_digest": f"digest-{pid}",
                "rss_bytes": index * MIB,
                "why": "a descendant",
                "depth": 1 + (index - 1) % 3,
            }
        )
    return rows


def target_row(
    row: Mapping[str, Any], *, sent: str | None, after: str | None, verified: bool, **changes: Any
) -> dict[str, Any]:
    """Return what became of a planned row, as the agent sends it."""
    outcome = {
        "pid": row["pid"],
        "start_ticks": row["start_ticks"],
        "argv": row["argv"],
        "sent": sent,
        "state_before": row["state"],
        "state_after": after,
        "verified": verified,
        "reason": "",
        "ms": 8.0 if verified else None,
        "added": False,
    }
    return {**outcome, **changes}


def outcome_answer(action: str = protocol.PAUSE, **changes: Any) -> dict[str, Any]:
    """Return a good end of ``action`` on the client."""
    after = {protocol.PAUSE: "T", protocol.RESUME: "S"}.get(action, "gone")
    targets = [
        target_row(row, sent="+".join(row["sends"]) or None, after=after, verified=True) for row in client_rows(action)
    ]
    answer = {
        "action_id": ACTION_ID,
        "op": action,
        "ok": True,
        "done": True,
        "phase": "done",
        "targets": targets,
        "left": [],
        "gpu_bytes_before": None,
        "gpu_bytes_after": None,
        "elapsed_s": 0.012,
        "grace_s": 45.0,
    }
    return {**answer, **changes}


def unfinished_stop(**changes: Any) -> dict[str, Any]:
    """Return a terminate whose grace ran out with one helper left."""
    rows = client_rows(protocol.STOP)
    targets = [
        target_row(rows[0], sent="SIGTERM", after="gone", verified=True, ms=900.0),
        target_row(rows[1], sent=None, after="gone", verified=True, ms=950.0),
        target_row(rows[2], sent=None, after="S", verified=False, reason="did not end within 45 s"),
    ]
    return outcome_answer(
        protocol.STOP,
        **{
            "ok": False,
            "targets": targets,
            "left": [{**rows[2], "gpu_bytes": 11 * GIB}],
            "gpu_bytes_before": 22 * GIB,
            "gpu_bytes_after": 11 * GIB,
            "gpu_holders": ["121341 python3 holds 11 G on GPU 5"],
            "elapsed_s": 45.2,
            **changes,
        },
    )


def audit_records() -> list[dict[str, Any]]:
    """Return the records of five actions, as the agent writes them: good, refused, cut short, unfinished, a kill."""
    records: list[dict[str, Any]] = []

    def add(minutes: float, action: str, action_id: str, result: dict[str, Any] | None) -> None:
        head = {
            "action_id": action_id,
            "action": action,
            "scope": "tree",
            "at": WALL - 60 * minutes,
            "ssh_user": "root",
            "operator": "ops@laptop",
            "grace_s": 45.0,
            "targets": [
                target_row(row, sent=None, after=None, verified=False, uid=0, user="root")
                for row in client_rows(action)
            ],
        }
        records.append({"record": "intent", **head})
        if result is not None:
            records.append({**head, "record": "result", "at": head["at"] + 1, **result})

    add(300, "pause", "a1", {"ok": True, "phase": "done", "targets": outcome_answer()["targets"], "elapsed_s": 0.012})
    add(
        240,
        "resume",
        "a2",
        {"ok": False, "phase": "refused", "refusal": "process 121338 is not what you were shown: argv differs"},
    )
    add(180, "kill", "a3", None)
    stop = unfinished_stop()
    keys = ("ok", "phase", "targets", "left", "gpu_bytes_before", "gpu_bytes_after", "elapsed_s")
    add(120, "stop", "a4", {key: stop[key] for key in keys})
    add(60, "kill", "a5", {"ok": True, "phase": "done", "targets": outcome_answer("kill")["targets"], "elapsed_s": 0.2})
    return records


def detail_answer(**changes: Any) -> dict[str, Any]:
    """Return the client in full, as the agent answers."""
    process = sample_state().processes[CLIENT_PID]
    answer = {
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "boot_id": BOOT_ID,
        "ppid": 1,
        "pgid": process.pgid,
        "session": process.session,
        "tty": None,
        "uid": 0,
        "euid": 0,
        "user": "root",
        "state": "S",
        "threads": 12,
        "argv": [*process.argv, "--api-key", "****", "--note", "two\nlines [bold]x[/bold]", ""],
        "argv_masked": 1,
        "exe": "/usr/bin/python3.10",
        "cwd": "/data/jobs",
        "cgroup": "/user.slice/user-0.slice/session-4.scope",
        "started_at": WALL - 11_520,
        "age_s": 11_520.0,
        "rss_bytes": process.rss_bytes,
        "cpu_s": 3925.0,
        "gpu": [],
        "nvidia_devices": [],
        "env_names": ["PATH", "HOME", "CUDA_VISIBLE_DEVICES", "OPENAI_API_KEY", "[red]ODD[/red]"],
        "threads_list": [
            {"tid": process.pid + i, "comm": f"worker {i}", "state": "S", "cpu_ticks": 100 * i} for i in range(12)
        ],
        "open_files": 211,
        "tracer_pid": 0,
        "voluntary_switches": 120_340,
        "nonvoluntary_switches": 411,
        "pause": None,
        "io": {"read_bytes": 3 * GIB, "write_bytes": 640 * MIB},
    }
    return {**answer, **changes}


def answering(**answers: Any) -> DialogLink:
    """Return a link that answers each op with the same value; an exception is raised, a function is called."""

    def make(value: Any) -> Callable[..., Any]:
        def answer(**arguments: Any) -> Any:
            if isinstance(value, Exception):
                raise value
            return value(**arguments) if callable(value) else value

        return answer

    return DialogLink(answers={op: make(value) for op, value in answers.items()})


def shown_text(screen: Screen[Any]) -> str:
    """Return all text of the static parts of ``screen``."""
    return "\n".join(str(static.visual) for static in screen.query(Static) if static.display)
