"""From `--host` to a link that is up."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from console.host.connect import LOCAL, HostSpec, make_link
from console.host.errors import LinkError, LinkRefused, SettingsError
from console.host.link import HostLink
from console.oneshot.terminal import TerminalPrompts
from console.settings import Settings, load_settings

FIRST_DATA_S = 30.0


def host_spec(arguments: argparse.Namespace, settings: Settings | None = None) -> HostSpec:
    """Return how to reach `--host`: a configured name, `local`, or what ssh understands.

    Raises:
        SettingsError: the configuration or the address cannot be used.
    """
    settings = load_settings(arguments.config) if settings is None else settings
    name: str = arguments.host
    configured = settings.hosts.get(name)
    if configured is None:
        spec = HostSpec(name=name, address=name, disks=("/",))
    else:
        spec = HostSpec(name=name, **configured.model_dump())
    if arguments.ssh_config is not None:
        if not Path(arguments.ssh_config).is_file():
            raise SettingsError(f"--ssh-config {arguments.ssh_config} is not a file that can be read")
        spec = dataclasses.replace(spec, ssh_config=arguments.ssh_config)
    return spec


@contextlib.asynccontextmanager
async def connected(arguments: argparse.Namespace, **start: Any) -> AsyncIterator[HostLink]:
    """Connect to `--host` and wait for the first full list of processes.

    Raises:
        SettingsError: bad input.
        LinkError: no connection; the text says why and what to do.
    """
    spec = host_spec(arguments)
    prompts = TerminalPrompts(arguments.accept_host_key)
    link = make_link(spec, prompts, start=start, extra_modules=simulation(spec))
    running = asyncio.create_task(link.run())
    try:
        try:
            await link.wait_up(spec.connect_deadline_s + 15.0, patient=False)
        except LinkRefused:
            question = prompts.unanswered
            if question is None:
                raise
            raise LinkRefused(
                f"The key of {question.host}, port {question.port}, is not known here ({question.algorithm} "
                f"{question.fingerprint}) {prompts.why}: compare it with the host's own, then connect once from a "
                f"terminal or add --accept-host-key {question.fingerprint}"
            ) from None
        await until(link, lambda: link.state.complete, FIRST_DATA_S, f"{spec.name} sent no list of processes")
        yield link
    finally:
        await link.close()
        await asyncio.gather(running, return_exceptions=True)


def simulation(spec: HostSpec) -> Mapping[str, str] | None:
    """Return the modules that simulate GPUs when the host is the demo's, else None."""
    if not spec.simulated_gpus:
        return None
    from console.demo.gpus import simulated_modules

    return simulated_modules()


async def until(link: HostLink, condition: Any, deadline_s: float, otherwise: str) -> None:
    """Wait for ``condition()`` to hold after some event.

    Raises:
        LinkError: it did not hold in time; the text begins with ``otherwise``.
    """
    changed = asyncio.Event()
    remove = link.listen(lambda event: changed.set())
    try:
        async with asyncio.timeout(deadline_s):
            while not condition():
                await changed.wait()
                changed.clear()
    except TimeoutError:
        raise LinkError(f"{otherwise} within {deadline_s:g} s") from None
    finally:
        remove()


async def gpus_known(link: HostLink, deadline_s: float = 6.0) -> None:
    """Wait until the host has said something about its GPUs, or the deadline has passed: then they stay unknown."""
    with contextlib.suppress(LinkError):
        await until(link, lambda: link.state.driver.state != "unknown" and _sampled(link), deadline_s, "")


def _sampled(link: HostLink) -> bool:
    """Return whether every GPU that works has a first sample."""
    state = link.state
    return state.driver.state != "ok" or (
        bool(state.gpus) and all(gpu.state != "ok" or gpu.memory_total_bytes is not None for gpu in state.gpus)
    )


def is_local(spec: HostSpec) -> bool:
    """Return whether the host is this machine, without SSH."""
    return spec.address == LOCAL
