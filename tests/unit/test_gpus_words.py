"""NVML's codes and bits in plain words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.agent import nvml_words
from console.agent.nvml_words import throttle_words


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0x0, []),
        (0x1, []),
        (0x4, ["power cap"]),
        (0x5, ["power cap"]),
        (0x8, ["hardware slowdown"]),
        (0x48, ["thermal (hardware)"]),
        (0x88, ["power brake (hardware)"]),
        (0x20, ["thermal (software)"]),
        (0x2, ["clocks set by the user"]),
        (0x10, ["sync boost"]),
        (0x100, ["display clocks"]),
        (0x200, ["board limit"]),
        (0x400, ["reliability limit"]),
        (0x64, ["power cap", "thermal (hardware)", "thermal (software)"]),
        (0x9000, ["unknown reason 0x9000"]),
    ],
)
def test_throttle_words(mask: int, words: list[str]) -> None:
    assert throttle_words(mask) == words


@given(st.integers(0, 2**64 - 1))
def test_every_bit_but_idle_is_told_once(mask: int) -> None:
    words = throttle_words(mask)
    assert len(set(words)) == len(words)
    assert bool(words) == bool(mask & ~0x1)
    assert throttle_words(mask | 0x1) == words


@given(st.integers(0, 2**11 - 1), st.integers(0, 2**11 - 1))
def test_another_reason_takes_none_away_but_the_summary(one: int, other: int) -> None:
    assert set(throttle_words(one)) - {"hardware slowdown"} <= set(throttle_words(one | other))


@pytest.mark.parametrize(
    ("content", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n", "535.129.03"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\n", "570.86.15"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65\nGCC version: gcc 12.2.0 \n", "580.65"),
        ("GCC version:  gcc version 12.2.0 (Debian)\n", None),
        ("NVRM version: nothing to see\n", None),
        ("", None),
    ],
)
def test_version_of_the_kernel_module(content: str, version: str | None) -> None:
    assert nvml_words.kernel_module_version(content) == version


@given(st.text())
def test_no_content_of_the_version_file_is_too_odd(content: str) -> None:
    version = nvml_words.kernel_module_version(content)
    assert version is None or version in content


@pytest.mark.parametrize(
    ("nvml", "driver"),
    [("12.550.54.15", "550.54.15"), ("13.580.65.06", "580.65.06"), ("", None), ("12.", None), ("SIMULATED", None)],
)
def test_driver_version_of_the_library(nvml: str, driver: str | None) -> None:
    assert nvml_words.library_driver_version(nvml) == driver


@pytest.mark.parametrize(
    ("kernel", "library", "shown"),
    [
        ("535.1", "550.2", "differ (535.1 and 550.2);"),
        (None, "550.2", "differ (unknown and 550.2);"),
        ("535.1", None, "differ (535.1 and unknown);"),
        (None, None, "differ; reboot"),
    ],
)
def test_mismatch_tells_the_versions_that_are_known(kernel: str | None, library: str | None, shown: str) -> None:
    state, text = nvml_words.driver_error(nvml_words.LIB_RM_VERSION_MISMATCH, "", kernel, library)
    assert state == "mismatch"
    assert shown in text


@given(st.integers(0, 2000), st.sampled_from(["GPU requires restart", ""]))
def test_every_code_has_a_state_and_a_sentence(code: int, text: str) -> None:
    state, reason = nvml_words.gpu_error(code, text)
    assert state == ("lost" if code == nvml_words.GPU_IS_LOST else "error")
    assert reason
    state, reason = nvml_words.driver_error(code, text, None, None)
    expected = {nvml_words.LIBRARY_NOT_FOUND: "absent", nvml_words.LIB_RM_VERSION_MISMATCH: "mismatch"}
    assert state == expected.get(code, "error")
    assert reason
