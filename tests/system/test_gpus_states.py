"""States of the driver and of each GPU, with the real pynvml over the NVML stand-in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.nvml.build import build_standin
from tests.nvml.sampler import DEADLINE_S, SamplerProcess, sampling

HANG_S = 0.5


@pytest.fixture(scope="module")
def libdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_standin(tmp_path_factory.mktemp("nvml"))


def states(view: Mapping[str, Any]) -> list[str]:
    return [gpu["state"] for gpu in view["gpus"]]


def await_states(sampler: SamplerProcess, *expected: str) -> dict[str, Any]:
    return sampler.until(
        lambda view: (
            states(view) == list(expected) and all(gpu["sampled_t"] > 0 for gpu in view["gpus"] if gpu["state"] == "ok")
        )
    )


def test_eight_gpus(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 8") as sampler:
        view = await_states(sampler, *["ok"] * 8)
        assert view["driver"] == {
            "state": "ok",
            "text": "",
            "version": "550.54.15",
            "cuda": "12.4",
            "simulated": False,
        }
        assert [gpu["index"] for gpu in view["gpus"]] == list(range(8))
        assert [gpu["uuid"] for gpu in view["gpus"]] == [f"GPU-stand-in-{index}" for index in range(8)]
        assert [gpu["temperature_c"] for gpu in view["gpus"]] == list(range(40, 48))


def test_a_driver_without_gpus_is_no_error(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 0") as sampler:
        view = sampler.sampled()
        assert view["driver"]["state"] == "ok"
        assert "no GPU" in view["driver"]["text"]
        assert view["gpus"] == []


def test_no_library(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    # A folder without the library; the machine that runs the tests must not lend its own.
    (empty / "libnvidia-ml.so.1").write_text("not a library")
    with sampling(empty, tmp_path, "count 8") as sampler:
        view = sampler.sampled()
        assert (view["driver"]["state"], view["driver"]["text"]) == ("absent", "no NVIDIA driver on this host")
        assert view["gpus"] == []
        assert sampler.ask("memory") is None
        assert sampler.ask("wait_fresh", DEADLINE_S)[0] is True


def test_a_driver_that_appears_later_is_found(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 2", "init 9") as sampler:
        view = sampler.sampled()
        assert view["driver"]["state"] == "error"
        assert "modprobe nvidia" in view["driver"]["text"]
        sampler.scenario.write("count 2")
        assert await_states(sampler, "ok", "ok")["driver"]["state"] == "ok"


def test_mismatch_names_both_versions(libdir: Path, tmp_path: Path) -> None:
    version_file = tmp_path / "version"
    version_file.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
    )
    with sampling(libdir, tmp_path, "count 8", "init 18", version_file=str(version_file)) as sampler:
        driver = sampler.sampled()["driver"]
        assert driver["state"] == "mismatch"
        assert "kernel module and libnvidia-ml differ (535.129.03 and 550.54.15)" in driver["text"]
        assert "reboot or reload the module" in driver["text"]
        assert driver["version"] == "535.129.03"


def test_no_permission(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 8", "init 4") as sampler:
        driver = sampler.sampled()["driver"]
        assert driver["state"] == "error"
        assert "/dev/nvidia" in driver["text"]


def test_an_error_without_words_of_ours_keeps_nvmls(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 8", "init 23") as sampler:
        driver = sampler.sampled()["driver"]
        assert driver["state"] == "error"
        assert "NVML error 23 (an error of the NVML stand-in)" in driver["text"]


def test_a_hung_driver_blocks_nobody_and_recovers(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 2", "init hang", hang_s=HANG_S) as sampler:
        # The call returns only when the scenario changes: that any answer comes proves that nobody waits for it.
        assert sampler.snapshot()["gpus"] == []
        view = sampler.until(lambda view: view["driver"]["state"] == "hung")
        assert "no answer from the driver for" in view["driver"]["text"]
        assert sampler.ask("memory") is None
        assert sampler.ask("wait_fresh", DEADLINE_S)[0] is True
        assert sampler.ask("threads") == ["gpu-driver"]
        sampler.scenario.write("count 2")
        assert await_states(sampler, "ok", "ok")["driver"]["text"] == ""


def test_one_hung_gpu_keeps_its_last_figures_and_the_others_go_on(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 8", "gpu 2 mem 1234 99999", hang_s=HANG_S) as sampler:
        await_states(sampler, *["ok"] * 8)
        sampler.scenario.add("gpu 2 hang", "gpu 3 mem 777 99999")
        view = await_states(sampler, "ok", "ok", "hung", *["ok"] * 5)
        stuck = view["gpus"][2]
        assert stuck["reason"].startswith("no answer from the driver for ")
        assert "may have fallen off the bus: see dmesg for Xid" in stuck["reason"]
        assert stuck["memory_used_bytes"] == 1234

        others = [gpu for gpu in view["gpus"] if gpu["index"] != 2]
        later = sampler.until(
            lambda view: (
                all(view["gpus"][gpu["index"]]["sampled_t"] > gpu["sampled_t"] for gpu in others)
                and view["gpus"][3]["memory_used_bytes"] == 777
            )
        )["gpus"]
        assert (later[2]["state"], later[2]["sampled_t"]) == ("hung", stuck["sampled_t"])
        assert sampler.ask("threads") == [f"gpu-{index}" for index in range(8)]

        sampler.scenario.remove("gpu 2 hang")
        recovered = await_states(sampler, *["ok"] * 8)["gpus"][2]
        assert recovered["reason"] == ""
        assert recovered["sampled_t"] > stuck["sampled_t"]


def test_a_gpu_that_hangs_from_the_start(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 2", "gpu 0 hang", hang_s=HANG_S) as sampler:
        view = await_states(sampler, "hung", "ok")
        assert view["gpus"][0]["name"] is None
        sampler.scenario.write("count 2")
        await_states(sampler, "ok", "ok")


def test_a_gpu_lost_from_the_start_and_one_in_the_middle(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 3", "gpu 0 lost", "gpu 1 mem 5 9", "gpu 1 proc 1 5") as sampler:
        view = await_states(sampler, "lost", "ok", "ok")
        assert "fell off the bus" in view["gpus"][0]["reason"]
        assert view["gpus"][0]["uuid"] is None
        assert sampler.ask("memory") != []

        sampler.scenario.add("gpu 1 lost")
        gone = await_states(sampler, "lost", "lost", "ok")["gpus"][1]
        figures = set(gone) - {"index", "state", "reason", "uuid", "name", "sampled_t"}
        assert {name: gone[name] for name in figures} == dict.fromkeys(figures)
        assert gone["uuid"] == "GPU-stand-in-1"
        assert sampler.ask("memory") == []

        sampler.scenario.write("count 3")
        assert await_states(sampler, "ok", "ok", "ok")["gpus"][1]["reason"] == ""


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (4, "no permission"),
        (8, "power cables"),
        (16, "needs a reset"),
        (999, "see dmesg for Xid"),
        (23, "NVML error 23"),
    ],
)
def test_a_gpu_without_a_handle(libdir: Path, tmp_path: Path, code: int, words: str) -> None:
    with sampling(libdir, tmp_path, "count 2", f"gpu 1 fail handle {code}") as sampler:
        view = await_states(sampler, "ok", "error")
        assert words in view["gpus"][1]["reason"]


def test_a_gpu_that_answers_nothing_but_its_name_is_in_error(libdir: Path, tmp_path: Path) -> None:
    measured = ["memory", "utilisation", "temperature", "power", "clock", "throttle", "pcie", "processes"]
    with sampling(
        libdir, tmp_path, "count 1", *(f"gpu 0 fail {field} 999" for field in measured), slow_s=0.0
    ) as sampler:
        view = await_states(sampler, "error")
        assert "unknown error" in view["gpus"][0]["reason"]
        assert view["gpus"][0]["name"] == "NVML stand-in GPU"


def test_stop_ends_the_threads(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 4", interval_s=3600.0) as sampler:
        await_states(sampler, *["ok"] * 4)
        assert len(sampler.ask("threads")) == 4
        sampler.ask("stop")
        sampler.until(lambda _: sampler.ask("threads") == [])


def test_wait_fresh_samples_at_once_whatever_the_interval(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 2", interval_s=3600.0) as sampler:
        await_states(sampler, "ok", "ok")
        sampler.scenario.add("gpu 1 mem 4321 99999")
        done, after = sampler.ask("wait_fresh", DEADLINE_S)
        assert done
        gpus = sampler.gpus()
        assert all(gpu["sampled_t"] > after for gpu in gpus)
        assert gpus[1]["memory_used_bytes"] == 4321


def test_wait_fresh_gives_up_in_time(libdir: Path, tmp_path: Path) -> None:
    with sampling(libdir, tmp_path, "count 1") as sampler:
        await_states(sampler, "ok")
        sampler.scenario.add("gpu 0 hang")
        sampler.until(lambda _: sampler.ask("wait_fresh", 0.05)[0] is False)
