"""`doctor`: everything that a first connection needs, each with what to do when it is not there."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from console.agent.protocol import printable
from console.exits import CANNOT_RUN, LINK, OK
from console.host.connect import HostSpec
from console.host.errors import LinkError
from console.host.state import HostState
from console.oneshot.hosts import connected, gpus_known, host_spec, is_local, until
from console.oneshot.terminal import show, show_json

_MARKS = {True: "✓", False: "✗", None: "⚠"}
_GAUGES_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. ``ok``: True good, None works with less, False does not work; ``fix`` says what to do."""

    name: str
    ok: bool | None
    text: str
    fix: str = ""


def run_doctor(arguments: argparse.Namespace) -> int:
    """Check this machine, the connection and the host; return the exit code.

    Raises:
        SettingsError: the configuration or the address cannot be used.
    """
    spec = host_spec(arguments)
    checks = list(_this_machine(spec))
    code = asyncio.run(_host(arguments, spec, checks))
    if arguments.json:
        show_json([dataclasses.asdict(check) for check in checks])
    else:
        show(_lines(checks))
    return code


def _lines(checks: list[Check]) -> Iterator[str]:
    for check in checks:
        yield f"{_MARKS[check.ok]} {check.name:<12} {printable(check.text)}"
        if check.fix:
            yield f"  {'':<12} → {printable(check.fix)}"
    bad = sum(check.ok is False for check in checks)
    yield f"{bad} of {len(checks)} checks failed." if bad else f"All {len(checks)} checks passed or work with less."


async def _host(arguments: argparse.Namespace, spec: HostSpec, checks: list[Check]) -> int:
    """Connect and add what the host says; return the exit code."""
    try:
        async with connected(arguments) as link:
            checks.append(Check("connection", True, f"{spec.name} answers, {_rtt(link.status.rtt_ms)}agent is up"))
            await gpus_known(link)
            try:
                await until(link, lambda: link.state.gauges.cores is not None, _GAUGES_S, "no gauges")
            except LinkError as error:
                checks.append(Check("gauges", None, str(error), "the host may be overloaded: look at its load"))
            checks.extend(_on_host(link.state))
    except LinkError as error:
        # The sentence already says what to do: it is written where the failure is understood.
        checks.append(Check("connection", False, str(error)))
        return LINK
    return CANNOT_RUN if any(check.ok is False for check in checks) else OK


def _rtt(rtt_ms: float | None) -> str:
    return "" if rtt_ms is None else f"{rtt_ms:.0f} ms, "


def _this_machine(spec: HostSpec) -> Iterator[Check]:
    yield Check("python", True, f"{sys.version.split()[0]} runs the console")
    colours = os.environ.get("TERM", "")
    if colours in ("", "dumb"):
        yield Check(
            "terminal", None, f"TERM is {colours or 'not set'}", "set TERM=xterm-256color for the console's screens"
        )
    else:
        size = shutil.get_terminal_size()
        small = size.columns < 80 or size.lines < 24
        yield Check(
            "terminal",
            None if small else True,
            f"{colours}, {size.columns}×{size.lines}",
            "make it at least 80×24" if small else "",
        )
    if is_local(spec):
        if not sys.platform.startswith("linux"):
            yield Check("host", False, f"`local` is {sys.platform}; hosts are Linux", "name a Linux host with --host")
        return
    yield from _ssh_side(spec)


def _ssh_side(spec: HostSpec) -> Iterator[Check]:
    config = spec.ssh_config or Path("~/.ssh/config").expanduser()
    there = config.is_file()
    yield Check(
        "ssh config", True, f"{config} is used" if there else f"{config} is not there: nothing is taken from it"
    )
    agent = os.environ.get("SSH_AUTH_SOCK", "")
    keys = [path for path in spec.identity_files if path.is_file()]
    missing = [str(path) for path in spec.identity_files if not path.is_file()]
    if missing:
        yield Check(
            "keys", False, f"{', '.join(missing)} cannot be read", "correct identity_files in the configuration"
        )
    if not spec.identity_files:
        folder = Path("~/.ssh").expanduser()
        keys = sorted(path for path in folder.glob("id_*") if not path.name.endswith(".pub")) if folder.is_dir() else []
    sources = [f"{len(keys)} key file{'s' * (len(keys) != 1)}"] if keys else []
    sources += ["an SSH agent"] if agent and Path(agent).exists() else []
    if sources:
        yield Check("keys", True, f"{' and '.join(sources)} can be offered")
    else:
        yield Check(
            "keys",
            None,
            "no key file and no SSH agent here",
            "run `ssh-keygen -t ed25519` and `ssh-copy-id` the key, or use passwords",
        )


def _on_host(state: HostState) -> Iterator[Check]:
    hello = state.hello
    if hello is None:
        return
    yield Check("host", True, f"{hello.hostname}, Linux {hello.kernel}, logged in as {hello.user}")
    yield Check("host python", True, f"{hello.python} runs the agent")
    yield _ability(
        hello.can.get("pidfd"), "pidfd", "signals go through pidfds", False, "update the host's kernel or Python"
    )
    yield _ability(
        hello.can.get("audit"),
        "audit",
        f"{hello.audit_path} can be written",
        None,
        "make room or correct the folder's owner",
    )
    if hello.uid != 0:
        yield Check(
            "rights",
            None,
            f"{hello.user} may signal only its own processes",
            "connect as root to act on those of other users",
        )
    yield _gpu_check(state)
    missing = state.gauges.missing
    if missing:
        yield Check(
            "psutil", None, next(iter(missing.values())), "pip install psutil there for CPU, memory and network gauges"
        )
    else:
        yield Check("psutil", True, "CPU, memory and network gauges work")
    yield _ability(hello.can.get("cgroup2"), "cgroup v2", "there", None, "")
    yield _ability(hello.can.get("systemd"), "systemd", "runs", None, "")


def _ability(can: bool | str | None, name: str, good: str, otherwise: bool | None, fix: str) -> Check:
    if can is True:
        return Check(name, True, good)
    return Check(name, otherwise, str(can or "not known"), fix)


def _gpu_check(state: HostState) -> Check:
    driver = state.driver
    if driver.state != "ok":
        known = driver.state != "unknown"
        return Check("GPUs", None, driver.text if known else "the driver has not answered yet")
    ill = [gpu for gpu in state.gpus if gpu.state != "ok"]
    count = f"{len(state.gpus)} GPUs, driver {driver.version or 'n/a'}" + (" (SIMULATED)" if driver.simulated else "")
    if ill:
        return Check("GPUs", None, f"{count}; GPU {ill[0].index} is {ill[0].state}: {ill[0].reason}")
    return Check("GPUs", True, count)
