"""A process in full, in words: its arguments one a line, its facts, its environment's names, its threads."""

from __future__ import annotations

import shlex

from console.agent.protocol import printable
from console.host import lines
from console.host.detail import Detail
from console.host.figures import NOT_AVAILABLE, age_text, count_text, moment_text, size_text
from console.host.lines import Line

STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "in uninterruptible sleep: it cannot be killed before the kernel lets it go",
    "T": "stopped",
    "t": "stopped by a tracer",
    "Z": "zombie: it has ended, its parent has not collected it",
    "X": "dead",
    "I": "idle",
}

MAX_THREADS_SHOWN = 500


def shell_quoted(detail: Detail) -> str:
    """Return the argument vector as a shell would need it typed; "" when there is none."""
    return shlex.join(detail.argv or ())


def argv_lines(detail: Detail, width: int) -> list[Line]:
    """Return the argument vector, one element a line with its index, long ones wrapped."""
    if detail.argv is None:
        return [(("The host could not read its arguments.", lines.WARN),)]
    if not detail.argv:
        return [(("No arguments: a kernel thread, or one that has erased them.", lines.DIM),)]
    digits = len(str(len(detail.argv) - 1))
    out: list[Line] = []
    for index, arg in enumerate(detail.argv):
        lead = f"{index:>{digits}}  "
        shown = printable(arg) if arg else "(empty)"
        tone = lines.PLAIN if arg else lines.DIM
        for row, part in enumerate(lines.wrap(shown, width - len(lead))):
            out.append(((lead if row == 0 else " " * len(lead), lines.DIM), (part, tone)))
    return out


def fact_lines(detail: Detail, width: int) -> list[Line]:
    """Return the facts of the process, a name and a value a line."""
    return [each for name, value in _facts(detail) for each in _fact(name, value, width)]


def _facts(detail: Detail) -> list[tuple[str, str]]:
    state = detail.state or "?"
    by = f" by {printable(detail.paused_by)}" if detail.paused_by else ", not through a console"
    facts = [
        ("identity", f"pid {detail.pid}, start ticks {detail.start_ticks}, boot {printable(detail.boot_id)}"),
        ("user", _user(detail)),
        ("state", f"{printable(state)}  {STATES.get(state, '')}".rstrip()),
        ("paused", "" if detail.paused_since is None else f"since {moment_text(detail.paused_since)}{by}"),
        ("started", f"{moment_text(detail.started_at)}, {age_text(detail.age_s)} ago"),
        ("parent", f"{_or_na(detail.ppid)}, group {_or_na(detail.pgid)}, session {_or_na(detail.session)}"),
        ("terminal", printable(detail.tty) if detail.tty else "none"),
        ("traced by", str(detail.tracer_pid) if detail.tracer_pid else ""),
        ("CPU", _cpu(detail)),
        ("memory", f"{size_text(detail.rss_bytes, NOT_AVAILABLE)} resident"),
        ("GPU memory", _gpu(detail)),
        ("GPU devices", _listed(detail.nvidia_devices, "no /dev/nvidia* is open")),
        ("I/O", _io(detail)),
        ("switches", _switches(detail)),
        ("open files", _or_na(detail.open_files)),
        ("program", printable(detail.exe) if detail.exe else NOT_AVAILABLE),
        ("directory", printable(detail.cwd) if detail.cwd else NOT_AVAILABLE),
        ("cgroup", printable(detail.cgroup) if detail.cgroup else NOT_AVAILABLE),
        *(("note", printable(note)) for note in detail.notes),
    ]
    return [(name, value) for name, value in facts if value]


def _fact(name: str, value: str, width: int) -> list[Line]:
    return [
        ((f"{name if index == 0 else '':<12}", lines.DIM), (part, lines.PLAIN))
        for index, part in enumerate(lines.wrap(value, width - 12))
    ]


def _or_na(value: int | None) -> str:
    return NOT_AVAILABLE if value is None else str(value)


def _user(detail: Detail) -> str:
    text = f"{printable(detail.user or '?')}, uid {_or_na(detail.uid)}"
    if detail.euid is not None and detail.euid != detail.uid:
        text += f", acts as uid {detail.euid}"
    return text


def _cpu(detail: Detail) -> str:
    parts = [] if detail.cpu_percent is None else [f"{detail.cpu_percent:.0f} % of one core"]
    if detail.cpu_s is not None:
        parts.append(f"{age_text(detail.cpu_s)} used in all")
    return ", ".join(parts) or NOT_AVAILABLE


def _gpu(detail: Detail) -> str:
    if detail.gpu is None:
        return NOT_AVAILABLE
    held = ", ".join(f"GPU {row.gpu}: {size_text(row.memory_bytes, NOT_AVAILABLE)}" for row in detail.gpu)
    if len(detail.gpu) > 1:
        held += f"; {size_text(sum(row.memory_bytes or 0 for row in detail.gpu))} in all"
    return held or "none"


def _listed(values: tuple[str, ...] | None, none: str) -> str:
    return NOT_AVAILABLE if values is None else " ".join(printable(value) for value in values) or none


def _io(detail: Detail) -> str:
    if detail.read_bytes is None and detail.written_bytes is None:
        return NOT_AVAILABLE
    read, written = (size_text(size, NOT_AVAILABLE) for size in (detail.read_bytes, detail.written_bytes))
    return f"{read} read, {written} written"


def _switches(detail: Detail) -> str:
    if detail.voluntary_switches is None and detail.nonvoluntary_switches is None:
        return NOT_AVAILABLE
    return f"{_or_na(detail.voluntary_switches)} voluntary, {_or_na(detail.nonvoluntary_switches)} forced"


def environment_lines(detail: Detail, width: int) -> list[Line]:
    """Return the names of the environment; values never leave the host."""
    if detail.env_names is None:
        return list(lines.wrapped(printable(detail.env_note) or "The host could not read it.", width, tone=lines.WARN))
    names = "  ".join(printable(name) for name in sorted(detail.env_names))
    out = list(lines.wrapped(names or "empty", width))
    if detail.env_note:
        out.extend(lines.wrapped(printable(detail.env_note), width, tone=lines.DIM))
    return out


def thread_lines(detail: Detail, clk_tck: int = 100) -> list[Line]:
    """Return the threads, a line each: tid, state, CPU time, name."""
    if detail.threads_list is None:
        return [(("The host could not read them.", lines.WARN),)]
    out: list[Line] = []
    for thread in detail.threads_list[:MAX_THREADS_SHOWN]:
        cpu = NOT_AVAILABLE if thread.cpu_ticks is None else f"{thread.cpu_ticks / clk_tck:.1f} s"
        lead = f"{thread.tid:>8} {printable(thread.state)} {cpu:>10}  "
        out.append(((lead, lines.DIM), (printable(thread.comm), lines.PLAIN)))
    missing = (detail.threads or 0) - len(out)
    if missing > 0:
        out.append(((f"         … and {count_text(missing, 'thread')} more", lines.DIM),))
    return out


def detail_lines(detail: Detail, width: int, clk_tck: int = 100) -> list[Line]:
    """Return the whole process: arguments, facts, environment, threads, each under its heading."""
    masked = f", {count_text(detail.argv_masked, 'value')} masked on the host" if detail.argv_masked else ""
    arguments = "arguments" if detail.argv is None else count_text(len(detail.argv), "argument")
    sections = (
        (f"Command: {arguments}{masked}", argv_lines(detail, width)),
        ("Process", fact_lines(detail, width)),
        ("Environment: names only", environment_lines(detail, width)),
        (f"Threads: {_or_na(detail.threads)}", thread_lines(detail, clk_tck)),
    )
    out: list[Line] = []
    for heading, body in sections:
        out.extend([*([lines.line("")] if out else []), ((heading, lines.HEAD),), *body])
    return out
