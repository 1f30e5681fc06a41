"""The agent's lines: in order, counted, never waiting for the console, never without bound."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from console.agent import protocol
from console.agent.wire import PROGRESS_QUEUED, Wire


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            continue


def read_all(fd: int) -> list[dict[str, Any]]:
    with os.fdopen(os.dup(fd), "rb") as file:
        return [protocol.decode(line) for line in file]


def test_a_stalled_reader_costs_no_more_than_a_few_lines_of_progress(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    wire = Wire(writer)
    for number in range(2000):
        wire.send({"ev": protocol.ACTION, "number": number, "pad": "x" * 1000})
        if number % 100 == 0:
            wire.send({"id": number, "ok": {}})
    assert wire.backlog() <= PROGRESS_QUEUED + 20
    got: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: got.extend(read_all(reader)))
    thread.start()
    wire.close(60.0)
    os.close(writer)
    thread.join(60.0)
    assert [line["seq"] for line in got] == list(range(1, len(got) + 1))
    assert [line["id"] for line in got if "id" in line] == list(range(0, 2000, 100)), "no answer is dropped"
    numbers = [line["number"] for line in got if "number" in line]
    assert numbers == sorted(numbers) and len(numbers) >= PROGRESS_QUEUED // 2
    times = [line["t"] for line in got]
    assert times == sorted(times)


def test_a_reader_that_went_away_is_noticed(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    wire = Wire(writer)
    os.close(reader)
    wire.send({"ev": "x"})
    assert wire.broken.wait(60.0)
    wire.send({"ev": "y"})
    wire.close(0.05)
    assert wire.broken.is_set()
