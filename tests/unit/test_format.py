"""Figures as pictures and pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.host.format import bar, fraction, pair_text, percent_text, rate_text, sparkline, watts_text
from console.host.layout_figures import COMMAND_MIN, gpu_cells_per_line, gpu_figures, process_columns, taken

GIB = 1 << 30


@given(st.none() | st.floats(allow_nan=True), st.integers(-3, 80))
def test_a_bar_is_as_wide_as_asked(filled: float | None, width: int) -> None:
    full, empty = bar(filled, width)
    assert len(full) + len(empty) == max(0, width)


@pytest.mark.parametrize(
    ("filled", "expected"),
    [(None, ""), (0.0, ""), (0.0001, "╸"), (0.5, "━━"), (0.63, "━━╸"), (0.999, "━━━╸"), (1.0, "━━━━"), (7.0, "━━━━")],
)
def test_a_little_is_not_nothing_and_nearly_full_is_not_full(filled: float | None, expected: str) -> None:
    assert bar(filled, 4)[0] == expected


@given(st.lists(st.none() | st.floats(0, 100), max_size=60), st.integers(1, 60), st.integers(0, 500))
def test_a_sparkline_is_as_wide_as_asked(values: list[float | None], width: int, before: int) -> None:
    assert len(sparkline(values, width, count=before + len(values))) == width


@given(st.lists(st.floats(0, 40), min_size=60, max_size=60), st.integers(0, 59), st.sampled_from([60, 30, 20, 15]))
def test_a_short_peak_is_never_lost(values: list[float], where: int, width: int) -> None:
    values[where] = 100.0
    assert sparkline(values, width).count("▇") == 1


def test_a_sliding_history_keeps_its_shape() -> None:
    values = [float(v) for v in range(100)]
    lines = [sparkline(values[n : n + 60], 20, count=n + 60) for n in range(3)]
    assert lines[1][:-1] in (lines[0][:-1], lines[0][1:])
    assert sparkline(values[3:63], 20, count=63)[:-1] == lines[0][1:]


def test_an_unknown_sample_is_a_gap_and_newest_is_right() -> None:
    assert sparkline([0, None, 100], 5, capacity=5) == "  ▁ ▇"
    assert sparkline([], 3) == "   "


@pytest.mark.parametrize(
    ("used", "total", "expected"),
    [
        (round(74.2 * GIB), round(95.6 * GIB), "74.2/95.6 G"),
        (412 * GIB, 1024 * GIB, "412/1024 G"),
        (None, 80 * GIB, "?/80.0 G"),
        (5, None, "n/a"),
        (0, 0, "0/0 B"),
        (120 * GIB, 141 * GIB, "120/141 G"),
    ],
)
def test_pairs_share_a_unit(used: int | None, total: int | None, expected: str) -> None:
    assert pair_text(used, total) == expected


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(None, "n/a"), (0, "0 B/s"), (999, "999 B/s"), (18_400_000, "18.4 MB/s"), (2.5e9, "2.5 GB/s"), (3e12, "3.0 TB/s")],
)
def test_rates(rate: float | None, expected: str) -> None:
    assert rate_text(rate) == expected


def test_what_is_not_known_is_never_zero() -> None:
    assert (percent_text(None), watts_text(None, 600.0), pair_text(None, None)) == ("n/a", "n/a", "n/a")
    assert (percent_text(0), watts_text(0.0, None), fraction(None, 5)) == ("0%", "0 W", None)


@given(st.integers(20, 300))
def test_the_command_keeps_its_room_and_the_essential_columns_stay(width: int) -> None:
    columns = process_columns(width)
    assert {"pid", "state", "gpu", "cpu"} <= {c.key for c in columns}
    if width >= 54:
        assert width - taken(columns) >= COMMAND_MIN
    if width >= 76:
        assert {c.key for c in columns} >= {"pid", "user", "state", "gpu", "cpu", "rss", "age"}


@given(st.integers(40, 300))
def test_the_parts_of_a_gpu_line_fit(width: int) -> None:
    figures = gpu_figures(width)
    assert figures.bar + figures.spark + 38 <= max(width, 44 + figures.spark)


@given(st.integers(10, 300), st.integers(0, 32))
def test_small_gpus_fill_rows_of_equal_length(width: int, count: int) -> None:
    per_line = gpu_cells_per_line(width, count)
    assert per_line >= 1 and per_line * 10 <= max(10, width)
    assert gpu_cells_per_line(80, 8) == 8 and gpu_cells_per_line(79, 8) == 4
