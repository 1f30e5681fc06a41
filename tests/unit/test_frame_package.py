"""What an installation holds."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import console

ROOT = Path(__file__).resolve().parents[2]


def name_of(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", Requirement(requirement).name).lower()


def installed_with(distribution: str) -> set[str]:
    """Return the names of everything that the base install of ``distribution`` pulls in, itself included."""
    found: set[str] = set()
    waiting = [distribution]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for text in metadata.requires(name) or ():
            marker = Requirement(text).marker
            if marker is None or marker.evaluate({"extra": ""}):
                waiting.append(name_of(text))
    return found


def test_the_base_install_brings_the_console_and_no_torch():
    names = installed_with("eagle3-console")
    assert {"textual", "asyncssh", "httpx", "pydantic", "psutil", "nvidia-ml-py"} <= names
    assert not names & {"torch", "transformers", "sglang", "numpy"}


def test_the_version_and_the_commands_are_those_of_the_code():
    assert metadata.version("eagle3-console") == console.__version__
    commands = {e.name: e.value for e in metadata.distribution("eagle3-console").entry_points}
    assert commands == {"eagle3-console": "console.cli:main", "eagle3-pipeline": "pipeline.cli:main"}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory) -> set[str]:
    """The names in a wheel built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    code = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(folder / done.stdout.split()[-1]) as wheel:
        return set(wheel.namelist())


def test_the_wheel_holds_the_themes_and_every_source_file(wheel_names):
    themes = {f"console/_themes/{p.name}" for p in (ROOT / "themes").glob("*.toml")}
    sources = {
        p.relative_to(ROOT).as_posix()
        for package in ("console", "pipeline")
        for p in (ROOT / package).rglob("*")
        if p.is_file() and "__pycache__" not in p.parts
    }
    assert themes
    assert themes | sources <= wheel_names


def test_the_wheel_holds_no_tests(wheel_names):
    tops = {name.split("/")[0] for name in wheel_names if ".dist-info/" not in name}
    assert tops == {"console", "pipeline"}


@pytest.mark.parametrize("arguments", [["generate", "--config", "x.toml"], ["no-such-stage"]])
def test_a_stage_that_does_not_exist_is_one_sentence_and_exit_2(arguments):
    done = subprocess.run([sys.executable, "-m", "pipeline.cli", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert repr(arguments[0]) in done.stderr


def test_the_pipelines_help_and_version_answer():
    shown = subprocess.run([sys.executable, "-m", "pipeline.cli", "--help"], capture_output=True, text=True)
    version = subprocess.run([sys.executable, "-m", "pipeline.cli", "--version"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert "no stages yet" in shown.stdout
    assert version.stdout.split() == ["eagle3-pipeline", console.__version__]
