"""`eagle3-console --host H`: the console itself."""

from __future__ import annotations

import argparse
import sys

from console.exits import BAD_INPUT
from console.oneshot.terminal import say


def run_console(arguments: argparse.Namespace) -> int:
    """Show the host until the operator leaves; return the exit code.

    Raises:
        SettingsError: the configuration cannot be used.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        say("eagle3-console: the console needs a terminal; without one use a command (ps, gpus, ...: see --help)")
        return BAD_INPUT
    from console.app import run_app
    from console.host.connect import make_link
    from console.oneshot.hosts import host_spec, simulation
    from console.settings import load_settings

    settings = load_settings(arguments.config)
    spec = host_spec(arguments, settings)
    extra = simulation(spec)
    return run_app(
        lambda prompts: make_link(spec, prompts, extra_modules=extra), host_name=spec.name, settings=settings
    )
