"""Which processes hold the NVIDIA devices, from /proc alone: NVML may list nothing while memory is still held."""

from __future__ import annotations

import os
import re
import threading
from typing import Callable, Dict, Iterable, List, Set

DEVICE_PREFIX = "/dev/nvidia"

MAPS_DEADLINE_S = 2.0
"""For all memory maps together: reading one waits for a lock that a process wedged in the driver may keep for ever."""

_DELETED = " (deleted)"
_maps_scan = threading.Lock()


def holders_of_nvidia_devices(
    pids: Iterable[int],
    *,
    prefix: str = DEVICE_PREFIX,
    proc_root: str = "/proc",
    maps_deadline_s: float = MAPS_DEADLINE_S,
) -> Dict[int, List[str]]:
    """Return pid → devices (/dev/nvidia0, /dev/nvidia-uvm, ...) that it has open or mapped, for those that have any.

    Processes that end meanwhile, or that this user may not look into, are left out. The agent itself holds devices
    while NVML is in use: leave its pid out. Takes ``maps_deadline_s`` seconds at most for the memory maps, which are
    read only for pids with no device open; a map that does not come in that time is left out, and those after it too.
    """
    name = re.compile(re.escape(prefix) + r"(?:\d+|-uvm)\Z")

    def device(path: str) -> str:
        path = path[: -len(_DELETED)] if path.endswith(_DELETED) else path
        return path if name.match(path) else ""

    found: Dict[int, List[str]] = {}
    rest: List[int] = []
    for pid in pids:
        held = _open_devices("%s/%d/fd" % (proc_root, pid), device)
        if held:
            found[pid] = sorted(held)
        else:
            rest.append(pid)
    for pid, held in _mapped(rest, prefix, device, proc_root, maps_deadline_s).items():
        found[pid] = sorted(held)
    return found


def _open_devices(folder: str, device: Callable[[str], str]) -> Set[str]:
    held: Set[str] = set()
    try:
        numbers = os.listdir(folder)
    except OSError:
        return held
    for number in numbers:
        try:
            held.add(device(os.readlink("%s/%s" % (folder, number))))
        except OSError:
            continue
    held.discard("")
    return held


def _mapped(
    pids: List[int], prefix: str, device: Callable[[str], str], proc_root: str, deadline_s: float
) -> Dict[int, Set[str]]:
    """Return pid → mapped devices, read on a thread of its own that is given up after ``deadline_s`` seconds."""
    found: Dict[int, Set[str]] = {}
    if not pids or not _maps_scan.acquire(blocking=False):
        # A scan that never came back is still stuck: the next one would get stuck at the same process.
        return found

    def scan() -> None:
        try:
            for pid in pids:
                held = _mapped_devices("%s/%d/maps" % (proc_root, pid), prefix, device)
                if held:
                    found[pid] = held
        finally:
            _maps_scan.release()

    thread = threading.Thread(target=scan, name="gpu-maps", daemon=True)
    thread.start()
    thread.join(deadline_s)
    return dict(found)


def _mapped_devices(path: str, prefix: str, device: Callable[[str], str]) -> Set[str]:
    held: Set[str] = set()
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError:
        return held
    if os.fsencode(prefix) not in content:
        return held
    for line in content.splitlines():
        # address perms offset dev inode path: only the path may hold blanks.
        parts = line.split(None, 5)
        if len(parts) == 6:
            held.add(device(os.fsdecode(parts[5])))
    held.discard("")
    return held
