"""The pure parts of GPU sampling, and a sampler over modules that are odd in ways the C stand-in cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent.gpus import GpuSampler
from console.agent.nvml_calls import Calls, GpuFailed, number, text_of
from console.agent.nvml_fields import GpuReader
from console.agent.nvml_processes import merge_views

DEADLINE_S = 60.0

views = st.lists(
    st.lists(st.tuples(st.integers(1, 6), st.none() | st.integers(0, 2**40)), max_size=8),
    max_size=5,
)


@given(views)
def test_merging_keeps_every_pid_and_the_largest_view(lists: list[list[tuple[int, int | None]]]) -> None:
    merged = merge_views(lists)
    assert set(merged) == {pid for view in lists for pid, _ in view}
    for pid, held in merged.items():
        sums = [[size for p, size in view if p == pid and size is not None] for view in lists]
        known = [sum(sizes) for sizes in sums if sizes]
        assert held == (max(known) if known else None)


@given(views, st.randoms(use_true_random=False))
def test_merging_does_not_depend_on_order(lists: list[list[tuple[int, int | None]]], random: Any) -> None:
    merged = merge_views(lists)
    shuffled = [random.sample(view, len(view)) for view in lists]
    random.shuffle(shuffled)
    assert merge_views(shuffled) == merged


@given(views)
def test_merging_the_same_list_again_adds_nothing(lists: list[list[tuple[int, int | None]]]) -> None:
    assert merge_views(lists + lists) == merge_views(lists)


@pytest.mark.parametrize(
    ("value", "expected"), [(2**64 - 1, None), (2**32 - 1, None), (None, None), (0, 0), (2**32, 2**32)]
)
def test_numbers_that_mean_not_available(value: int | None, expected: int | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(b"GPU \xff", "GPU \ufffd"), (b"A100", "A100"), ("A100", "A100"), (None, None)]
)
def test_texts_may_be_bytes(value: bytes | str | None, expected: str | None) -> None:
    assert text_of(value) == expected


class OddError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


def refuse(value: int) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        raise OddError(value)

    return call


def odd_nvml(**functions: Any) -> SimpleNamespace:
    base: dict[str, Any] = {
        "NVMLError": OddError,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlSystemGetDriverVersion": lambda: b"418.0",
        "nvmlSystemGetCudaDriverVersion": lambda: 10010,
    }
    return SimpleNamespace(**{**base, **functions})


def test_a_refused_call_is_none_and_remembered() -> None:
    calls = Calls(odd_nvml(no=refuse(3), bad=refuse(999), worse=refuse(10), lost=refuse(15)))
    assert (calls("no"), calls.bad) == (None, None)
    assert (calls("bad"), calls("worse")) == (None, None)
    assert calls.bad is not None and calls.bad[0] == 999
    assert calls.answered == 0
    with pytest.raises(GpuFailed, match="fell off the bus"):
        calls("lost")


@pytest.mark.parametrize("error", [TypeError, ValueError, OSError, AttributeError])
def test_a_call_of_another_shape_is_none(error: type[Exception]) -> None:
    def call() -> None:
        raise error

    calls = Calls(odd_nvml(call=call))
    assert (calls("call"), calls("there is no such call"), calls.answered) == (None, None, 0)


def test_a_module_without_most_functions_gives_what_it_has() -> None:
    nvml = odd_nvml(
        nvmlDeviceGetName=lambda handle: b"Tesla K80",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=5, total=9),
    )
    row = GpuReader(nvml, 0, lambda pid: None, 30.0).read(1.0).row
    assert (row["name"], row["memory_used_bytes"], row["memory_total_bytes"]) == ("Tesla K80", 5, 9)
    assert (row["power_w"], row["processes"], row["state"]) == (None, None, "ok")


def sample(load: Callable[[], Any], **options: Any) -> GpuSampler:
    sampler = GpuSampler(3600.0, lambda pid: None, load, retry_s=3600.0, **options)
    sampler.start()
    assert sampler.wait_fresh(0.0, DEADLINE_S)
    return sampler


def test_versions_of_an_old_module() -> None:
    sampler = sample(odd_nvml)
    driver = sampler.snapshot()["driver"]
    assert (driver["state"], driver["version"], driver["cuda"], driver["simulated"]) == ("ok", "418.0", "10.1", False)
    sampler.stop()


def test_a_simulation_says_so_even_when_it_does_not_start() -> None:
    sampler = sample(lambda: odd_nvml(SIMULATED=True, nvmlInit=refuse(9)))
    driver = sampler.snapshot()["driver"]
    assert (driver["state"], driver["simulated"]) == ("error", True)
    sampler.stop()


def test_a_module_that_cannot_be_loaded_is_told() -> None:
    def load() -> Any:
        raise ImportError("No module named 'pynvml'")

    sampler = sample(load)
    assert sampler.snapshot() == {
        "driver": {
            "state": "error",
            "text": "pynvml cannot be loaded: No module named 'pynvml'",
            "version": None,
            "cuda": None,
            "simulated": False,
        },
        "gpus": [],
    }
    sampler.stop()


def test_a_fault_of_our_own_shows_on_its_card() -> None:
    def handle(index: int) -> int:
        raise ZeroDivisionError("oops")

    sampler = sample(lambda: odd_nvml(nvmlDeviceGetHandleByIndex=handle))
    row = sampler.snapshot()["gpus"][0]
    assert row["state"] == "error"
    assert "oops" in row["reason"]
    sampler.stop()


def test_of_two_holders_of_one_pid_the_later_born_counts() -> None:
    """GPU 0 was sampled before the pid was reborn, GPU 1 after."""

    def start_ticks(pid: int) -> int:
        return 500 if threading.current_thread().name == "gpu-0" else 900

    listed = [SimpleNamespace(pid=7, usedGpuMemory=1000)]
    nvml = odd_nvml(nvmlDeviceGetCount=lambda: 3, nvmlDeviceGetComputeRunningProcesses_v3=lambda handle: listed)
    sampler = GpuSampler(3600.0, start_ticks, lambda: nvml)
    sampler.start()
    assert sampler.wait_fresh(0.0, DEADLINE_S)
    assert sampler.memory_by_pid() == {7: (900, 2000)}
    sampler.stop()


def test_nothing_is_known_before_the_first_answer() -> None:
    release = threading.Event()
    sampler = GpuSampler(3600.0, lambda pid: None, lambda: release.wait(DEADLINE_S) and odd_nvml())
    assert sampler.snapshot()["driver"]["state"] == "unknown"
    sampler.start()
    assert sampler.snapshot()["driver"]["state"] == "unknown"
    assert sampler.memory_by_pid() is None
    assert not sampler.wait_fresh(0.0, 0.0)
    release.set()
    assert sampler.wait_fresh(0.0, DEADLINE_S)
    assert sampler.snapshot()["driver"]["state"] == "ok"
    sampler.stop()


def test_the_age_of_a_hang_is_told_by_the_clock() -> None:
    now = [100.0]
    release, entered = threading.Event(), threading.Event()

    def handle(index: int) -> int:
        entered.set()
        release.wait(DEADLINE_S)
        return index

    nvml = odd_nvml(nvmlDeviceGetHandleByIndex=handle)
    sampler = GpuSampler(3600.0, lambda pid: None, lambda: nvml, clock=lambda: now[0])
    sampler.start()
    assert entered.wait(DEADLINE_S)
    now[0] = 105.0
    assert sampler.snapshot()["gpus"][0]["state"] == "ok"
    now[0] = 112.5
    row = sampler.snapshot()["gpus"][0]
    assert row["state"] == "hung"
    assert row["reason"].startswith("no answer from the driver for 12 s;")
    release.set()
    sampler.stop()
