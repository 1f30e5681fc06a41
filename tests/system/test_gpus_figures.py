"""Figures and processes of GPUs, with the real pynvml over the NVML stand-in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import psutil
import pytest

from console.agent import nvml_fields
from console.agent.nvml_fields import ENDED, UNCONFIRMED
from console.host import state
from tests.nvml.build import build_standin
from tests.nvml.sampler import sampling

GIB = 1 << 30
FOREIGN = 4_194_304
"""One more than the largest pid that Linux gives: certainly not in /proc."""

FIGURES = {field.name for field in fields(state.Gpu)} - {"index", "state", "reason", "sampled_t"}


@pytest.fixture(scope="module")
def libdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_standin(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
    yield process
    process.kill()
    process.wait()


def start_ticks(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def test_every_figure(libdir: Path, tmp_path: Path) -> None:
    lines = [
        f"gpu 0 mem {70 * GIB} {96 * GIB}",
        "gpu 0 util 97 41",
        "gpu 0 temp 71",
        "gpu 0 power 412345 600000",
        "gpu 0 clocks 2410 12481",
        "gpu 0 throttle 25",
        "gpu 0 ecc 2 17",
        "gpu 0 pcie 3000 9000",
        "gpu 0 name NVIDIA RTX PRO 6000 Blackwell",
    ]
    with sampling(libdir, tmp_path, "count 1", *lines) as sampler:
        gpu = sampler.sampled()["gpus"][0]
    assert {name: gpu[name] for name in FIGURES} == {
        "uuid": "GPU-stand-in-0",
        "name": "NVIDIA RTX PRO 6000 Blackwell",
        # The stand-in reserves 512 MiB, which only version 1 of the call counts as used.
        "memory_used_bytes": 70 * GIB,
        "memory_total_bytes": 96 * GIB,
        "utilisation_percent": 97,
        "memory_utilisation_percent": 41,
        "temperature_c": 71,
        "power_w": 412.345,
        "power_limit_w": 600.0,
        "clock_sm_mhz": 2410,
        "clock_memory_mhz": 12481,
        "ecc_uncorrected": 2,
        "ecc_corrected": 17,
        "throttle": ["power cap", "thermal (software)"],
        "pcie_tx_bytes_per_s": 3000 * 1024,
        "pcie_rx_bytes_per_s": 9000 * 1024,
        "mig": False,
        "processes": [],
    }


def test_the_console_folds_what_the_sampler_says(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 2", "gpu 1 lost", f"gpu 0 proc {FOREIGN} 5", "gpu 0 throttle 4") as sampler:
        view = sampler.sampled()
    assert set(view["driver"]) == {field.name for field in fields(state.GpuDriver)}
    assert {frozenset(gpu) for gpu in view["gpus"]} == {frozenset(field.name for field in fields(state.Gpu))}
    assert set(view["gpus"][0]["processes"][0]) == {field.name for field in fields(state.GpuProcess)}
    folded = state.fold(state.HostState(), {"ev": "gpus", "seq": 1, "t": 1.0, **view})
    assert [gpu.state for gpu in folded.gpus] == ["ok", "lost"]
    assert folded.gpus[0].throttle == ("power cap",)
    assert folded.gpus[0].processes == (state.GpuProcess(FOREIGN, 5, None, UNCONFIRMED),)


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("memory", {"memory_used_bytes", "memory_total_bytes"}),
        ("utilisation", {"utilisation_percent", "memory_utilisation_percent"}),
        ("temperature", {"temperature_c"}),
        ("power", {"power_w"}),
        ("power_limit", {"power_limit_w"}),
        ("clock", {"clock_sm_mhz", "clock_memory_mhz"}),
        ("ecc", {"ecc_uncorrected", "ecc_corrected"}),
        ("throttle", {"throttle"}),
        ("pcie", {"pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"}),
        ("mig", {"mig"}),
        ("uuid", {"uuid"}),
        ("name", {"name"}),
        ("processes", {"processes"}),
    ],
)
@pytest.mark.parametrize("code", [3, 4, 999], ids=["not supported", "no permission", "unknown"])
def test_a_refused_figure_is_na_and_costs_no_other(
    libdir: Path, tmp_path: Path, field: str, names: set[str], code: int
) -> None:
    with sampling(libdir, tmp_path, "count 1", f"gpu 0 fail {field} {code}") as sampler:
        gpu = sampler.sampled()["gpus"][0]
    assert gpu["state"] == "ok"
    assert {name for name in FIGURES if gpu[name] is None} == names


def test_a_gpu_that_tells_nothing_is_still_there(libdir: Path, tmp_path: Path) -> None:
    fields_of_calls = ["name", "uuid", "memory", "utilisation", "temperature", "power", "power_limit", "clock", "ecc"]
    fields_of_calls += ["throttle", "pcie", "mig", "processes"]
    with sampling(libdir, tmp_path, "count 1", *(f"gpu 0 na {field}" for field in fields_of_calls)) as sampler:
        gpu = sampler.sampled()["gpus"][0]
        assert sampler.ask("memory") == []
    assert (gpu["state"], gpu["reason"]) == ("ok", "")
    assert {name: gpu[name] for name in FIGURES} == dict.fromkeys(FIGURES)


def test_values_that_mean_not_available_are_na(libdir: Path, tmp_path: Path) -> None:
    none, none64 = 2**32 - 1, 2**64 - 1
    lines = [f"gpu 0 mem {none64} {none64}", f"gpu 0 util {none} {none}", f"gpu 0 power {none} {none}"]
    lines += [f"gpu 0 ecc {none64} {none64}", f"gpu 0 pcie {none} {none}", f"gpu 0 clocks {none} {none}"]
    with sampling(libdir, tmp_path, "count 1", *lines) as sampler:
        gpu = sampler.sampled()["gpus"][0]
    assert {name for name in FIGURES if gpu[name] is not None} == {
        "uuid",
        "name",
        "temperature_c",
        "throttle",
        "mig",
        "processes",
    }


def test_an_older_driver_gives_the_same_by_older_calls(libdir: Path, tmp_path: Path) -> None:
    newer = ["nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons"]
    newer += [f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "Graphics", "MPSCompute")]
    lines = [f"missing {function}" for function in newer]
    lines += [f"gpu 0 mem {GIB} {96 * GIB}", "gpu 0 throttle 4", f"gpu 0 proc {FOREIGN} 5"]
    with sampling(libdir, tmp_path, "count 1", *lines) as sampler:
        gpu = sampler.sampled()["gpus"][0]
    assert gpu["memory_used_bytes"] == GIB + (512 << 20)
    assert gpu["throttle"] == ["power cap"]
    assert [process["pid"] for process in gpu["processes"]] == [FOREIGN]


def test_a_newer_driver_gives_the_temperature_by_the_newer_call(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 1", "missing nvmlDeviceGetTemperature", "gpu 0 temp 66") as sampler:
        assert sampler.sampled()["gpus"][0]["temperature_c"] == 66


def rows(gpu: dict[str, Any]) -> list[tuple[int, int | None, int | None, str]]:
    return [(p["pid"], p["memory_bytes"], p["start_ticks"], p["note"]) for p in gpu["processes"]]


def test_only_pids_of_proc_are_confirmed(libdir: Path, tmp_path: Path, job: subprocess.Popen[bytes]) -> None:
    lines = [f"gpu 0 proc {job.pid} 1000", f"gpu 1 proc {job.pid} 500", f"gpu 1 proc {FOREIGN} 7"]
    with sampling(libdir, tmp_path, "count 2", *lines) as sampler:
        gpus = sampler.sampled()["gpus"]
        ticks = start_ticks(job.pid)
        assert rows(gpus[0]) == [(job.pid, 1000, ticks, "")]
        assert rows(gpus[1]) == [(job.pid, 500, ticks, ""), (FOREIGN, 7, None, UNCONFIRMED)]
        assert sampler.ask("memory") == [[job.pid, [ticks, 1500]]]
    assert psutil.pid_exists(job.pid)


def test_memory_that_the_driver_does_not_tell_is_na(libdir: Path, tmp_path: Path, job: subprocess.Popen[bytes]) -> None:
    with sampling(libdir, tmp_path, "count 1", f"gpu 0 proc {job.pid} NA", "gpu 0 proc 1 NA graphics") as sampler:
        gpu = sampler.sampled()["gpus"][0]
        assert rows(gpu) == [(1, None, start_ticks(1), ""), (job.pid, None, start_ticks(job.pid), "")]
        assert sampler.ask("memory") == []


def test_a_pid_in_several_lists_counts_once(libdir: Path, tmp_path: Path) -> None:
    lines = [f"gpu 0 proc {FOREIGN} 100", f"gpu 0 proc {FOREIGN} 100 graphics", f"gpu 0 proc {FOREIGN} NA mps"]
    with sampling(libdir, tmp_path, "count 1", *lines, f"gpu 0 proc {FOREIGN + 1} 3 mps") as sampler:
        gpu = sampler.sampled()["gpus"][0]
    assert [(p["pid"], p["memory_bytes"]) for p in gpu["processes"]] == [(FOREIGN, 100), (FOREIGN + 1, 3)]


@pytest.mark.parametrize("refused", [[], ["gpu 0 fail processes 4"]], ids=["privileged", "own instances only"])
def test_mig_instances_add_up(libdir: Path, tmp_path: Path, refused: list[str]) -> None:
    lines = ["gpu 0 mig 3", f"gpu 0 proc {FOREIGN} 10 compute 0", f"gpu 0 proc {FOREIGN} 20 compute 2"]
    with sampling(libdir, tmp_path, "count 1", *lines, *refused) as sampler:
        gpu = sampler.sampled()["gpus"][0]
    assert gpu["mig"] is True
    assert [(p["pid"], p["memory_bytes"]) for p in gpu["processes"]] == [(FOREIGN, 30)]


def test_an_ended_process_holds_its_memory_until_the_driver_lets_go(
    libdir: Path, tmp_path: Path, job: subprocess.Popen[bytes]
) -> None:
    with sampling(libdir, tmp_path, "count 1", f"gpu 0 proc {job.pid} 1000") as sampler:
        sampler.sampled()
        ticks = start_ticks(job.pid)
        job.kill()
        job.wait()
        gpu = sampler.fresh()["gpus"][0]
        assert rows(gpu) == [(job.pid, 1000, None, ENDED)]
        assert sampler.ask("memory") == [[job.pid, [ticks, 1000]]]
        sampler.scenario.write("count 1")
        assert rows(sampler.fresh()["gpus"][0]) == []
        assert sampler.ask("memory") == []


def test_a_reborn_pid_is_another_holder(libdir: Path, tmp_path: Path) -> None:
    pid = os.getpid()
    with sampling(libdir, tmp_path, "count 2", f"gpu 0 proc {pid} 1000", f"gpu 1 proc {pid} 1") as sampler:
        sampler.sampled()
        sampler.ask("ticks", {pid: 10**12})
        assert [rows(gpu)[0][2] for gpu in sampler.fresh()["gpus"]] == [10**12, 10**12]
        assert sampler.ask("memory") == [[pid, [10**12, 1001]]]
        sampler.ask("ticks", {pid: None})
        assert [rows(gpu)[0][2:] for gpu in sampler.fresh()["gpus"]] == [(None, ENDED), (None, ENDED)]


def test_pcie_is_read_every_few_samples_only(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 1", "gpu 0 pcie 1 1", interval_s=3600.0) as sampler:
        sampler.sampled()
        sampler.scenario.write("count 1", "gpu 0 pcie 2 2")
        seen = [sampler.fresh()["gpus"][0]["pcie_rx_bytes_per_s"] for _ in range(nvml_fields.PCIE_EVERY)]
    assert seen == [1024] * (nvml_fields.PCIE_EVERY - 1) + [2048]


def test_what_hardly_changes_is_read_rarely(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 1", "gpu 0 ecc 1 1", slow_s=3600.0) as sampler:
        sampler.sampled()
        sampler.scenario.write("count 1", "gpu 0 ecc 5 5", "gpu 0 temp 77")
        gpu = sampler.fresh()["gpus"][0]
    assert (gpu["ecc_uncorrected"], gpu["temperature_c"]) == (1, 77)
