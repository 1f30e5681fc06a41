"""From a host's settings to its link: over SSH or on this machine, the same agent and the same conversation."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.agent import procfs
from console.agent.protocol import Identity
from console.host.actions import operator_name
from console.host.bootstrap import build_bundle
from console.host.channel import Channel
from console.host.link import HostLink
from console.host.local import open_local
from console.host.prompts import HostKeyQuestion, Prompts
from console.host.ssh import Keyring, open_ssh, parse_target, remote_command

LOCAL = "local"
DEFAULT_PYTHON = "python3"
ARGV_MAX_BYTES = 4096
"""So much of a process's argument vector comes with the list; the ``detail`` request has the rest."""


@dataclass(frozen=True, slots=True)
class HostSpec:
    """How to reach one host. ``address``: "local", an alias of ssh config, or user@host[:port]."""

    name: str
    address: str = LOCAL
    python: str = DEFAULT_PYTHON
    """For "local" the default means the Python that runs this console."""
    identity_files: tuple[Path, ...] = ()
    jump: tuple[str, ...] = ()
    """Hops, first one first; ProxyJump of ssh config counts when there are none."""
    ssh_config: Path | None = None
    known_hosts: Path | None = None
    """Where accepted host keys are stored; the console's own file by default."""
    disks: tuple[str, ...] = ()
    interval_s: float = 1.0
    connect_deadline_s: float = 15.0
    simulated_gpus: bool = False
    """Whether the host is the demo's: whoever makes the link then sends the simulation in place of pynvml."""


def make_link(
    host: HostSpec,
    prompts: Prompts,
    *,
    start: Mapping[str, Any] | None = None,
    extra_modules: Mapping[str, str] | None = None,
) -> HostLink:
    """Return the link to ``host``, not connected yet: :meth:`HostLink.run` does that.

    ``start`` adds to :func:`start_arguments` or replaces them; ``extra_modules`` do so to the modules of the agent.

    Raises:
        SettingsError: the address, a hop or `python` cannot be one.
    """
    asked = CountingPrompts(prompts)
    opener = _local_opener(host, extra_modules) if host.address == LOCAL else _ssh_opener(host, asked, extra_modules)
    return HostLink(
        opener,
        start={**start_arguments(host), **(start or {})},
        name=host.name,
        asking=lambda: asked.open > 0,
    )


def start_arguments(host: HostSpec) -> dict[str, Any]:
    """Return the arguments of the ``start`` request: what to sample, for whom, and what is ours and never a target."""
    return {
        "interval_s": host.interval_s,
        "argv_max": ARGV_MAX_BYTES,
        "disks": list(host.disks),
        "operator": operator_name(),
        "console_chain": [list(identity) for identity in own_chain()],
        "pid_namespace": pid_namespace(),
    }


def own_chain() -> list[Identity]:
    """Return the identities of this process and its ancestors, nearest first; none where there is no /proc."""
    try:
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return []
    chain: list[Identity] = []
    pid = os.getpid()
    while pid > 1:
        stat = procfs.read_stat(pid)
        if stat is None:
            break
        chain.append((boot_id, pid, stat.start_ticks))
        pid = stat.ppid
    return chain


def pid_namespace() -> str:
    """Return the name of this process's PID namespace; empty where there is none."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


class CountingPrompts:
    """Prompts that know how many questions are open."""

    def __init__(self, prompts: Prompts) -> None:
        self._prompts = prompts
        self.open = 0

    async def accept_host_key(self, question: HostKeyQuestion) -> bool:
        """Pass the question on."""
        self.open += 1
        try:
            return await self._prompts.accept_host_key(question)
        finally:
            self.open -= 1

    async def secret(self, title: str, prompt: str, *, echo: bool = False) -> str | None:
        """Pass the question on."""
        self.open += 1
        try:
            return await self._prompts.secret(title, prompt, echo=echo)
        finally:
            self.open -= 1


def _local_opener(host: HostSpec, extra: Mapping[str, str] | None) -> Callable[[], Awaitable[Channel]]:
    python = sys.executable if host.python == DEFAULT_PYTHON else str(Path(host.python).expanduser())

    async def open_channel() -> Channel:
        return await open_local(python, await asyncio.to_thread(build_bundle, extra))

    return open_channel


def _ssh_opener(host: HostSpec, prompts: Prompts, extra: Mapping[str, str] | None) -> Callable[[], Awaitable[Channel]]:
    target = parse_target(host.address)
    jump = tuple(parse_target(hop) for hop in host.jump)
    keyring = Keyring()
    remote_command(host.python)

    async def open_channel() -> Channel:
        return await open_ssh(
            target,
            await asyncio.to_thread(build_bundle, extra),
            prompts,
            python=host.python,
            identity_files=host.identity_files,
            jump=jump,
            config=host.ssh_config,
            known_hosts=host.known_hosts,
            deadline_s=host.connect_deadline_s,
            keyring=keyring,
        )

    return open_channel
