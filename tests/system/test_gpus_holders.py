"""Who holds a device, found in the real /proc: a file of the test plays /dev/nvidia0."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.agent.gpu_holders import holders_of_nvidia_devices

OPEN = "file = open(sys.argv[1])"
MAP = "import mmap, os; m = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096); os.closerange(3, 256)"
"""Python's mmap keeps a descriptor of its own, hence the range."""

Start = Callable[[str, Path], int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process that runs some code on a file, and returns its pid once the code has run."""
    processes: list[subprocess.Popen[str]] = []

    def begin(code: str, path: Path) -> int:
        code = f"import sys; {code}; print('ready', flush=True); sys.stdin.read()"
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        processes.append(process)
        assert process.stdout and process.stdout.readline() == "ready\n"
        return process.pid

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    for name in ("nvidia0", "nvidia17", "nvidia-uvm", "nvidiactl", "nvidia-uvm-tools", "nvidia0.log"):
        (tmp_path / name).write_bytes(bytes(4096))
    return tmp_path


def test_an_open_device_is_held(devices: Path, start: Start) -> None:
    several = "; ".join(
        f"f{i} = open(sys.argv[1] + '/{name}')"
        for i, name in enumerate(["nvidia-uvm", "nvidia17", "nvidia0", "nvidia0", "nvidiactl"])
    )
    holder, other = start(several, devices), start(OPEN, devices / "nvidiactl")
    found = holders_of_nvidia_devices([holder, other], prefix=f"{devices}/nvidia")
    assert found == {holder: [f"{devices}/{name}" for name in ("nvidia-uvm", "nvidia0", "nvidia17")]}


@pytest.mark.parametrize("name", ["nvidiactl", "nvidia-uvm-tools", "nvidia0.log"])
def test_what_holds_no_memory_is_no_device(devices: Path, start: Start, name: str) -> None:
    pid = start(OPEN, devices / name)
    assert holders_of_nvidia_devices([pid], prefix=f"{devices}/nvidia") == {}


def test_a_mapped_device_is_held_after_its_descriptor_was_closed(devices: Path, start: Start) -> None:
    pid = start(MAP, devices / "nvidia0")
    assert holders_of_nvidia_devices([pid], prefix=f"{devices}/nvidia") == {pid: [f"{devices}/nvidia0"]}


def test_a_device_whose_node_was_removed_is_still_held(devices: Path, start: Start) -> None:
    by_descriptor, by_map = start(OPEN, devices / "nvidia0"), start(MAP, devices / "nvidia17")
    (devices / "nvidia0").unlink()
    (devices / "nvidia17").unlink()
    assert holders_of_nvidia_devices([by_descriptor, by_map], prefix=f"{devices}/nvidia") == {
        by_descriptor: [f"{devices}/nvidia0"],
        by_map: [f"{devices}/nvidia17"],
    }


def test_a_device_with_blanks_in_its_path(tmp_path: Path, start: Start) -> None:
    folder = tmp_path / "a  b"
    folder.mkdir()
    (folder / "nvidia3").write_bytes(bytes(4096))
    pid = start(MAP, folder / "nvidia3")
    assert holders_of_nvidia_devices([pid], prefix=f"{folder}/nvidia") == {pid: [f"{folder}/nvidia3"]}


def test_processes_that_are_gone_or_closed_to_us_are_left_out(devices: Path, start: Start) -> None:
    holder = start(OPEN, devices / "nvidia0")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    found = holders_of_nvidia_devices([gone.pid, 2**22, 1, 2, holder], prefix=f"{devices}/nvidia")
    assert found == {holder: [f"{devices}/nvidia0"]}


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "proc" / "77" / "fd"
    folder.mkdir(parents=True)
    (folder / "3").write_text("not a link")
    (tmp_path / "proc" / "78").mkdir()
    assert holders_of_nvidia_devices([77, 78], proc_root=str(tmp_path / "proc")) == {}


def test_maps_that_never_come_hold_up_nobody(tmp_path: Path, devices: Path) -> None:
    """A pipe that nobody writes to plays the maps of a process that is wedged in the driver."""
    root = tmp_path / "proc"
    for pid in (77, 78):
        (root / str(pid) / "fd").mkdir(parents=True)
    os.mkfifo(root / "77" / "maps")
    (root / "78" / "fd" / "3").symlink_to(devices / "nvidia0")

    def look() -> dict[int, list[str]]:
        return holders_of_nvidia_devices(
            [77, 78], prefix=f"{devices}/nvidia", proc_root=str(root), maps_deadline_s=0.05
        )

    def scanners() -> int:
        return sum(thread.name == "gpu-maps" for thread in threading.enumerate())

    expected = {78: [f"{devices}/nvidia0"]}
    try:
        assert look() == expected
        assert scanners() == 1
        assert look() == expected
        assert scanners() == 1
    finally:
        (root / "77" / "maps").open("w").close()
        for thread in threading.enumerate():
            if thread.name == "gpu-maps":
                thread.join(60)
    assert scanners() == 0
    (root / "77" / "maps").unlink()
    (root / "77" / "maps").write_text(f"7f00-7f01 rw-s 00000000 00:05 123 {devices}/nvidia17\n")
    found = holders_of_nvidia_devices([77, 78], prefix=f"{devices}/nvidia", proc_root=str(root), maps_deadline_s=60)
    assert found == {77: [f"{devices}/nvidia17"], **expected}
