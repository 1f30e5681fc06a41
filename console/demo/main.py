"""`eagle3-console demo`: starts the demo's host, shows it in the console, and ends all of it."""

from __future__ import annotations

import argparse
import contextlib
import json
import selectors
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.demo.bound import module
from console.demo.state import DemoFolder
from console.exits import BAD_INPUT, LINK, OK

READY_WITHIN_S = 90.0
END_WITHIN_S = 30.0


class DemoError(Exception):
    """The demo's host could not be started; the text says why."""


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo host."""

    folder: DemoFolder
    user: str
    port: int
    simulated_gpus: bool
    supervisor: subprocess.Popen[bytes]


def run_demo(arguments: argparse.Namespace) -> int:
    """Run the demo until the operator quits; return the exit code.

    ``arguments``: ``no_ui`` waits without a screen; ``config`` is the operator's config.toml, None for the usual place.

    Raises:
        SettingsError: the operator's settings cannot be used.
    """
    if not sys.platform.startswith("linux"):
        print("The demo's host is this machine, and hosts are Linux: run it on Linux.", file=sys.stderr)
        return BAD_INPUT
    try:
        with running_demo() as demo:
            return wait_without_screen(demo) if arguments.no_ui else show(demo, arguments.config)
    except DemoError as error:
        print(error, file=sys.stderr)
        return LINK


@contextlib.contextmanager
def running_demo() -> Iterator[Demo]:
    """Start a demo host and end it with the block. When this process dies instead, the supervisor ends it.

    Raises:
        DemoError: it could not be started.
    """
    supervisor = subprocess.Popen(
        module("console.demo.supervisor"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    folder = None
    try:
        ready = first_message(supervisor)
        folder = DemoFolder(Path(ready["folder"]))
        yield Demo(folder, ready["user"], ready["port"], ready["simulated_gpus"], supervisor)
    finally:
        end(supervisor, folder)


def first_message(supervisor: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return what the supervisor says once all is up.

    Raises:
        DemoError: it reports an error, ends, or says nothing in time.
    """
    assert supervisor.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(supervisor.stdout, selectors.EVENT_READ)
        if not selector.select(READY_WITHIN_S):
            raise DemoError(f"The demo's host did not start within {READY_WITHIN_S:g} s.")
    line = supervisor.stdout.readline()
    if not line:
        raise DemoError("The demo's host ended at once; what it printed above says why.")
    message: dict[str, Any] = json.loads(line)
    if "error" in message:
        raise DemoError(message["error"])
    return message


def end(supervisor: subprocess.Popen[bytes], folder: DemoFolder | None) -> None:
    """Let the supervisor end everything, and make sure of it and of the folder if it does not."""
    assert supervisor.stdin is not None
    supervisor.stdin.close()
    try:
        supervisor.wait(END_WITHIN_S)
    except subprocess.TimeoutExpired:
        supervisor.kill()
        supervisor.wait()
    if folder is not None:
        shutil.rmtree(folder.path, ignore_errors=True)


def show(demo: Demo, config: Path | None) -> int:
    """Show the demo's host in the console, under the operator's own theme and keys; return the exit code.

    Raises:
        SettingsError: the operator's settings cannot be used.
    """
    from console.app import run_app
    from console.demo.gpus import simulated_modules
    from console.host.connect import HostSpec, make_link
    from console.settings import load_settings

    spec = HostSpec(
        name="demo",
        address="demo",
        python=sys.executable,
        ssh_config=demo.folder.ssh_config,
        known_hosts=demo.folder.known_hosts,
        disks=("/",),
    )
    extra = simulated_modules() if demo.simulated_gpus else None
    return run_app(
        lambda prompts: make_link(spec, prompts, extra_modules=extra),
        host_name="DEMO on this machine",
        settings=load_settings(config),
    )


def wait_without_screen(demo: Demo) -> int:
    """Say how to connect and wait for Ctrl-C, TERM or the end of the terminal; return the exit code."""
    print(connection_help(demo), flush=True)
    ends = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    while signal.sigtimedwait(ends, 1.0) is None:
        if demo.supervisor.poll() is not None:
            raise DemoError("The demo's host ended by itself.")
    return OK


def connection_help(demo: Demo) -> str:
    """Return what an operator needs to try the commands and plain ssh against the demo's host."""
    folder = demo.folder
    lines = [
        "DEMO on this machine: an SSH host on loopback with jobs that run for real.",
        "",
        f"  host         {demo.user}@127.0.0.1:{demo.port}",
        f"  key          {folder.client_key}",
        f"  known_hosts  {folder.known_hosts}",
        f"  config       {folder.config}",
        f"  ssh_config   {folder.ssh_config}",
        "",
        f"  eagle3-console --config {folder.config} ps --host demo",
        f"  eagle3-console --config {folder.config} --host demo",
        f"  ssh -F {folder.ssh_config} demo uptime",
        "",
        "Ctrl-C ends the host and its jobs and removes all of the above.",
    ]
    return "\n".join(lines)
