"""An operator whose answers are set beforehand, a small agent, and waiting for a condition."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from console.host.prompts import HostKeyQuestion

DEADLINE_S = 60.0
"""For anything that should take far less: a busy machine must not fail a test."""


@dataclass
class Operator:
    """Answers prompts: ``accept`` to host keys, the next of ``secrets`` to the rest, None when there is none left."""

    accept: bool = False
    secrets: list[str] = field(default_factory=list)
    questions: list[HostKeyQuestion] = field(default_factory=list)
    asked: list[tuple[str, str, bool]] = field(default_factory=list)
    pause_s: float = 0.0
    """How long the operator thinks."""

    async def accept_host_key(self, question: HostKeyQuestion) -> bool:
        self.questions.append(question)
        await asyncio.sleep(self.pause_s)
        return self.accept

    async def secret(self, title: str, prompt: str, *, echo: bool = False) -> str | None:
        self.asked.append((title, prompt, echo))
        await asyncio.sleep(self.pause_s)
        return self.secrets.pop(0) if self.secrets else None


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until ``condition`` holds; fail with ``what`` after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.01)


SMALL_AGENT = """
import json, os, sys

def main():
    seq = 0
    def send(**message):
        nonlocal seq
        seq += 1
        sys.stdout.write(json.dumps(dict(message, seq=seq, t=float(seq))) + "\\n")
        sys.stdout.flush()
    send(ev="hello", version=1, hostname="small", boot_id="b", uid=os.getuid(), user="u", python=sys.version.split()[0],
         kernel="k", clk_tck=100, pid=os.getpid(), start_ticks=1, can={})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        op = request["op"]
        if op == "silence":
            # Says on disk that it was asked, and never answers.
            with open(request["path"], "a") as file:
                file.write("asked\\n")
        elif op == "die":
            sys.stderr.write("the last words\\n")
            os._exit(9)
        elif op == "where":
            send(id=request["id"], ok={"pynvml": sys.modules["pynvml"].__file__ if "pynvml" in sys.modules else "",
                 "home": os.environ.get("HOME"), "ssh": os.environ.get("SSH_CONNECTION", ""), "argv": sys.orig_argv[:2]
                 if hasattr(sys, "orig_argv") else []})
        else:
            send(id=request["id"], ok={"echo": request})
"""
"""Stands for ``console.agent.main`` where the conversation is tested and not the agent."""

SMALL = {"console.agent.main": SMALL_AGENT}
