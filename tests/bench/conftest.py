"""What all measurements share: they take minutes, so everything is made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.bench_host import BenchHost
from tests.bench.crowd import Crowd, build_crowd
from tests.bench.gpu_weather import GpuWeather
from tests.bench.steady import Steady, measure_steady
from tests.nvml.build import build_standin, standin_env


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="session")
def crowd(folder: Path) -> Iterator[Crowd]:
    """The 2,000 processes."""
    crowd = Crowd(build_crowd(folder))
    yield crowd
    crowd.close()


@pytest.fixture(scope="session")
def host(folder: Path, crowd: Crowd) -> Iterator[BenchHost]:
    """The host with the crowd and 8 GPUs."""
    scenario = folder / "scenario"
    weather = GpuWeather(scenario, crowd.leaders())
    host = BenchHost(folder, crowd, standin_env(build_standin(folder / "nvml"), scenario))
    yield host
    host.close()
    weather.close()


@pytest.fixture(scope="session")
def steady(host: BenchHost) -> Steady:
    """The steady state."""
    return measure_steady(host)
