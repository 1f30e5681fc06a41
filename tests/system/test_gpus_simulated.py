"""The demo's made-up GPUs over real processes: running, stopped, ended, reborn."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.agent import procfs
from console.agent.gpus import GpuSampler
from console.demo import simulated_nvml

DEADLINE_S = 60.0
JOB_BYTES = 20 << 30


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """A process that really computes."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "gpus.json"
    monkeypatch.setenv("EAGLE3_DEMO_GPUS", str(path))
    monkeypatch.setattr(simulated_nvml, "_file", {"stamp": None, "config": None})
    simulated_nvml.nvmlShutdown()
    return path


@pytest.fixture
def sampler() -> Iterator[GpuSampler]:
    def start_ticks(pid: int) -> int | None:
        stat = procfs.read_stat(pid)
        return stat.start_ticks if stat else None

    before = set(threading.enumerate())
    sampler = GpuSampler(0.05, start_ticks, lambda: simulated_nvml, retry_s=0.05)
    yield sampler
    sampler.stop()
    for thread in set(threading.enumerate()) - before:
        thread.join(DEADLINE_S)
    simulated_nvml.nvmlShutdown()


def describe(path: Path, *jobs: dict[str, int]) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"gpus": 2, "total_bytes": 80 << 30, "jobs": list(jobs)}))
    fresh.replace(path)


def until(sampler: GpuSampler, condition: Callable[[list[dict[str, Any]]], object]) -> list[dict[str, Any]]:
    deadline = time.monotonic() + DEADLINE_S

    def met(gpus: list[dict[str, Any]]) -> object:
        return gpus and all(gpu["sampled_t"] > 0 for gpu in gpus) and condition(gpus)

    while not met(gpus := sampler.snapshot()["gpus"]):
        assert time.monotonic() < deadline, f"never came; last: {gpus}"
        time.sleep(0.02)
    return gpus


def test_a_job_from_its_work_to_its_end(described: Path, sampler: GpuSampler, job: subprocess.Popen[bytes]) -> None:
    describe(described, {"pid": job.pid, "gpu": 1, "bytes": JOB_BYTES})
    sampler.start()
    gpus = until(sampler, lambda gpus: gpus[1]["utilisation_percent"] > 0 and gpus[1]["power_w"] > 75)
    stat = procfs.read_stat(job.pid)
    assert stat is not None
    assert gpus[1]["processes"] == [
        {"pid": job.pid, "memory_bytes": JOB_BYTES, "start_ticks": stat.start_ticks, "note": ""}
    ]
    assert gpus[1]["memory_used_bytes"] == JOB_BYTES + simulated_nvml.BASE_BYTES
    assert (gpus[0]["utilisation_percent"], gpus[0]["processes"]) == (0, [])
    assert sampler.memory_by_pid() == {job.pid: (stat.start_ticks, JOB_BYTES)}

    os.kill(job.pid, signal.SIGSTOP)
    stopped = until(sampler, lambda gpus: gpus[1]["utilisation_percent"] == 0)
    assert stopped[1]["memory_used_bytes"] == JOB_BYTES + simulated_nvml.BASE_BYTES
    os.kill(job.pid, signal.SIGCONT)
    until(sampler, lambda gpus: gpus[1]["utilisation_percent"] > 0)

    job.kill()
    # Not waited for: a zombie holds nothing.
    gone = until(sampler, lambda gpus: gpus[1]["processes"] == [])
    assert gone[1]["memory_used_bytes"] == simulated_nvml.BASE_BYTES
    assert sampler.memory_by_pid() == {}


def test_jobs_come_and_go_with_the_file(described: Path, sampler: GpuSampler, job: subprocess.Popen[bytes]) -> None:
    describe(described)
    sampler.start()
    until(sampler, lambda gpus: gpus[0]["processes"] == [])
    describe(described, {"pid": job.pid, "gpu": 0, "bytes": 1}, {"pid": os.getpid(), "gpu": 0, "bytes": 2})
    gpus = until(sampler, lambda gpus: gpus[0]["processes"])
    assert [(p["pid"], p["memory_bytes"]) for p in gpus[0]["processes"]] == sorted([(job.pid, 1), (os.getpid(), 2)])
    describe(described)
    until(sampler, lambda gpus: gpus[0]["processes"] == [])


def test_a_reborn_pid_is_not_the_job(described: Path, sampler: GpuSampler, job: subprocess.Popen[bytes]) -> None:
    stat = procfs.read_stat(job.pid)
    assert stat is not None
    listed = {"pid": job.pid, "gpu": 0, "bytes": JOB_BYTES}
    describe(
        described,
        {**listed, "start_ticks": stat.start_ticks + 1},
        {**listed, "gpu": 1, "start_ticks": stat.start_ticks},
    )
    sampler.start()
    gpus = until(sampler, lambda gpus: gpus[1]["processes"])
    assert gpus[0]["processes"] == []
