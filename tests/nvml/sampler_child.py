"""A process with a GPU sampler in it, asked over stdin; run by `sampler.SamplerProcess` over the NVML stand-in.

Its one argument is a JSON object of GpuSampler's options. Commands and answers are JSON lines: ["snapshot"],
["memory"], ["wait_fresh", timeout_s], ["ticks", {pid: start_ticks or null}] (overrides /proc), ["threads"], ["stop"].
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from console.agent import procfs
from console.agent.gpus import GpuSampler

override: dict[int, int | None] = {}


def start_ticks_of(pid: int) -> int | None:
    if pid in override:
        return override[pid]
    stat = procfs.read_stat(pid)
    return stat.start_ticks if stat else None


def answer(sampler: GpuSampler, command: str, *arguments: Any) -> Any:
    if command == "snapshot":
        return sampler.snapshot()
    if command == "memory":
        held = sampler.memory_by_pid()
        return None if held is None else sorted(held.items())
    if command == "wait_fresh":
        after = time.monotonic()
        return [sampler.wait_fresh(after, arguments[0]), after]
    if command == "ticks":
        override.update({int(pid): ticks for pid, ticks in arguments[0].items()})
        return None
    if command == "threads":
        return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("gpu-"))
    if command == "stop":
        return sampler.stop()
    raise ValueError(command)


def main() -> None:
    sampler = GpuSampler(start_ticks_of=start_ticks_of, **json.loads(sys.argv[1]))
    sampler.start()
    for line in sys.stdin:
        print(json.dumps(answer(sampler, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
