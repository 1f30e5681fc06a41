"""The demo's made-up GPUs: what they say without any process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent.gpus import GpuSampler
from console.demo import simulated_nvml

DEADLINE_S = 60.0


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The path of the demo's file; the module forgets the GPUs of other tests, and no thread outlives this one."""
    before = set(threading.enumerate())
    path = tmp_path / "gpus.json"
    monkeypatch.setenv("EAGLE3_DEMO_GPUS", str(path))
    monkeypatch.setattr(simulated_nvml, "_file", {"stamp": None, "config": None})
    simulated_nvml.nvmlShutdown()
    yield path
    for thread in set(threading.enumerate()) - before:
        thread.join(DEADLINE_S)
    simulated_nvml.nvmlShutdown()


def replace(path: Path, **content: object) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content))
    fresh.replace(path)


def test_everything_says_that_it_is_simulated(described: Path) -> None:
    replace(described, gpus=3, total_bytes=80 << 30, jobs=[])
    sampler = GpuSampler(3600.0, lambda pid: None, lambda: simulated_nvml)
    sampler.start()
    assert sampler.wait_fresh(0.0, DEADLINE_S)
    view = sampler.snapshot()
    sampler.stop()
    assert (view["driver"]["state"], view["driver"]["simulated"]) == ("ok", True)
    assert [gpu["index"] for gpu in view["gpus"]] == [0, 1, 2]
    assert all("SIMULATED" in gpu["name"] and "SIMULATED" in gpu["uuid"] for gpu in view["gpus"])


def test_an_idle_gpu_and_what_nothing_stands_for(described: Path) -> None:
    replace(described, gpus=1, total_bytes=80 << 30, jobs=[])
    sampler = GpuSampler(3600.0, lambda pid: None, lambda: simulated_nvml)
    sampler.start()
    assert sampler.wait_fresh(0.0, DEADLINE_S)
    gpu = sampler.snapshot()["gpus"][0]
    sampler.stop()
    assert (gpu["state"], gpu["utilisation_percent"], gpu["processes"]) == ("ok", 0, [])
    assert (gpu["memory_used_bytes"], gpu["memory_total_bytes"]) == (simulated_nvml.BASE_BYTES, 80 << 30)
    assert (gpu["temperature_c"], gpu["power_w"], gpu["power_limit_w"]) == (34, 70.0, 600.0)
    made_up_no_further = ["ecc_uncorrected", "ecc_corrected", "mig", "memory_utilisation_percent", "clock_sm_mhz"]
    made_up_no_further += ["clock_memory_mhz", "throttle", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s"]
    assert [gpu[name] for name in made_up_no_further] == [None] * len(made_up_no_further)


def test_without_its_file_the_driver_is_not_loaded(described: Path) -> None:
    with pytest.raises(simulated_nvml.NVMLError) as caught:
        simulated_nvml.nvmlInit()
    assert caught.value.value == simulated_nvml.NVML_ERROR_DRIVER_NOT_LOADED


def test_errors_of_order_and_index(described: Path) -> None:
    with pytest.raises(simulated_nvml.NVMLError) as caught:
        simulated_nvml.nvmlDeviceGetCount()
    assert caught.value.value == simulated_nvml.NVML_ERROR_UNINITIALIZED
    replace(described, gpus=2, jobs=[])
    simulated_nvml.nvmlInit()
    for index in (-1, 2):
        with pytest.raises(simulated_nvml.NVMLError) as caught:
            simulated_nvml.nvmlDeviceGetHandleByIndex(index)
        assert caught.value.value == simulated_nvml.NVML_ERROR_INVALID_ARGUMENT


def test_a_broken_or_missing_file_leaves_the_last_content(described: Path) -> None:
    replace(described, gpus=1, total_bytes=1 << 40, jobs=[])
    simulated_nvml.nvmlInit()
    gpu = simulated_nvml.nvmlDeviceGetHandleByIndex(0)
    described.write_text('{"gpus": 1, "total_')
    assert simulated_nvml.nvmlDeviceGetMemoryInfo(gpu).total == 1 << 40
    described.unlink()
    assert simulated_nvml.nvmlDeviceGetMemoryInfo(gpu).total == 1 << 40
    replace(described, gpus=1, total_bytes=1 << 41, jobs=[])
    assert simulated_nvml.nvmlDeviceGetMemoryInfo(gpu).total == 1 << 41


@given(st.floats(0, 1000), st.floats(0, 1000), st.floats(0, 100), st.floats(0.1, 100))
def test_figures_move_towards_their_goal_and_never_past_it(
    value: float, goal: float, elapsed: float, tau_s: float
) -> None:
    after = simulated_nvml._follow(value, goal, elapsed, tau_s)
    assert min(value, goal) - 1e-6 <= after <= max(value, goal) + 1e-6
    assert abs(goal - after) <= abs(goal - value) + 1e-6
