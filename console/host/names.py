"""The short name of a process: what an operator would call it."""

from __future__ import annotations

import re

from console.agent.protocol import printable
from console.host.state import Process

_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*|perl|ruby|node|bash|sh|dash|zsh")

_WITH_VALUE = ("-W", "-X")


def process_name(process: Process) -> str:
    """Return what an interpreter runs (``sglang.launch_server``, ``run_inference.py``), for others the program."""
    argv = process.argv
    if not argv or not argv[0]:
        return f"[{printable(process.comm)}]"
    program = _base(argv[0].split(" ", 1)[0])
    if _INTERPRETER.fullmatch(program):
        return printable(_script(argv[1:]) or program)
    return printable(program)


def _script(arguments: tuple[str, ...]) -> str:
    """Return the module of ``-m``, or the first word that is no option; empty for ``-c`` and an interactive one."""
    words = iter(arguments)
    for word in words:
        if word == "-m":
            return next(words, "")
        if word == "-c":
            return ""
        if word in _WITH_VALUE:
            next(words, "")
        elif word and not word.startswith("-"):
            return _base(word)
    return ""


def _base(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]
