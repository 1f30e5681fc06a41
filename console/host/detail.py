"""Detail: everything the agent tells of one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """Memory that the process holds on one GPU."""

    gpu: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread; ``cpu_ticks`` since it began."""

    tid: int
    comm: str
    state: str
    cpu_ticks: int | None


@dataclass(frozen=True, slots=True)
class Detail:
    """One process in full. None is what the host could not tell; a list that is None was not readable."""

    pid: int
    start_ticks: int
    boot_id: str
    ppid: int | None = None
    pgid: int | None = None
    session: int | None = None
    tty: str | None = None
    uid: int | None = None
    euid: int | None = None
    user: str | None = None
    state: str | None = None
    threads: int | None = None
    argv: tuple[str, ...] | None = None
    argv_masked: int | None = None
    """How many arguments have their value masked."""
    exe: str | None = None
    cwd: str | None = None
    cgroup: str | None = None
    started_at: float | None = None
    """Wall-clock seconds of the host."""
    age_s: float | None = None
    rss_bytes: int | None = None
    cpu_percent: float | None = None
    cpu_s: float | None = None
    """CPU time used since it began, in seconds."""
    gpu: tuple[GpuMemory, ...] | None = None
    nvidia_devices: tuple[str, ...] | None = None
    env_names: tuple[str, ...] | None = None
    env_note: str = ""
    threads_list: tuple[Thread, ...] | None = None
    open_files: int | None = None
    tracer_pid: int | None = None
    voluntary_switches: int | None = None
    nonvoluntary_switches: int | None = None
    paused_since: float | None = None
    paused_by: str = ""
    read_bytes: int | None = None
    written_bytes: int | None = None
    notes: tuple[str, ...] = ()


def detail_from_wire(answer: Mapping[str, Any]) -> Detail:
    """Return the detail in an answer to a ``detail`` request; what is missing, or of another shape, is None.

    Raises:
        ValueError, KeyError: it does not even name a process, a GPU or a thread.
    """
    pid, ticks = _integer(answer.get("pid")), _integer(answer.get("start_ticks"))
    if pid is None or ticks is None:
        raise ValueError("the answer names no process")
    pause, moved = _object(answer.get("pause")), _object(answer.get("io"))
    return Detail(
        pid=pid,
        start_ticks=ticks,
        boot_id=_text(answer.get("boot_id")) or "",
        ppid=_integer(answer.get("ppid")),
        pgid=_integer(answer.get("pgid")),
        session=_integer(answer.get("session")),
        tty=_text(answer.get("tty")),
        uid=_integer(answer.get("uid")),
        euid=_integer(answer.get("euid")),
        user=_text(answer.get("user")),
        state=_text(answer.get("state")),
        threads=_integer(answer.get("threads")),
        argv=_texts(answer.get("argv")),
        argv_masked=_integer(answer.get("argv_masked")),
        exe=_text(answer.get("exe")),
        cwd=_text(answer.get("cwd")),
        cgroup=_text(answer.get("cgroup")),
        started_at=_number(answer.get("started_at")),
        age_s=_number(answer.get("age_s")),
        rss_bytes=_integer(answer.get("rss_bytes")),
        cpu_percent=_number(answer.get("cpu_percent")),
        cpu_s=_number(answer.get("cpu_s")),
        gpu=_rows(answer.get("gpu"), _gpu_memory),
        nvidia_devices=_texts(answer.get("nvidia_devices")),
        env_names=_texts(answer.get("env_names")),
        env_note=_text(answer.get("env_note")) or "",
        threads_list=_rows(answer.get("threads_list"), _thread),
        open_files=_integer(answer.get("open_files")),
        tracer_pid=_integer(answer.get("tracer_pid")),
        voluntary_switches=_integer(_first(answer, "voluntary_switches", "voluntary")),
        nonvoluntary_switches=_integer(_first(answer, "nonvoluntary_switches", "nonvoluntary")),
        paused_since=_number(pause.get("since")),
        paused_by=_text(pause.get("by")) or "",
        read_bytes=_integer(moved.get("read_bytes")),
        written_bytes=_integer(moved.get("write_bytes")),
        notes=_notes(answer),
    )


def _first(answer: Mapping[str, Any], *names: str) -> Any:
    return next((answer[name] for name in names if answer.get(name) is not None), None)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _integer(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _texts(value: Any) -> tuple[str, ...] | None:
    return tuple(str(each) for each in value) if isinstance(value, Sequence) and not isinstance(value, str) else None


def _rows(value: Any, make: Callable[[Mapping[str, Any]], Row]) -> tuple[Row, ...] | None:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    return tuple(make(row) for row in value if isinstance(row, Mapping))


def _gpu_memory(row: Mapping[str, Any]) -> GpuMemory:
    return GpuMemory(int(row["gpu"]), _integer(row.get("bytes")))


def _thread(row: Mapping[str, Any]) -> Thread:
    comm, state = str(row.get("comm") or "?"), str(row.get("state") or "?")
    return Thread(int(row["tid"]), comm, state, _integer(row.get("cpu_ticks")))


def _notes(answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the agent's remarks on what it could not read, whether it sent one or several."""
    value = _first(answer, "limits_note", "limits", "note", "notes")
    if isinstance(value, str):
        return (value,) if value else ()
    return _texts(value) or ()
