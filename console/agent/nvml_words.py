"""NVML's codes and bits in plain words: what happened, and what to do about it."""

from __future__ import annotations

import re
from typing import List, Optional, Tuple

# Return codes of nvml.h. They are part of the library's ABI, so they hold for every version of pynvml.
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_POWER = 8
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
IRQ_ISSUE = 11
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
OPERATING_SYSTEM = 17
LIB_RM_VERSION_MISMATCH = 18
UNKNOWN = 999

LOST = (
    "fell off the bus; running work on it is gone; "
    "needs a reset (end this console first: it holds the device) or a reboot"
)

_GPU_ERRORS = {
    NO_PERMISSION: "no permission to read this GPU: this user needs read and write access to its /dev/nvidia* file",
    INSUFFICIENT_POWER: "its external power cables are not attached properly",
    DRIVER_NOT_LOADED: "the NVIDIA kernel module was unloaded: reload it ('modprobe nvidia'), then connect again",
    TIMEOUT: "the driver gave up waiting for this GPU: see dmesg for Xid",
    IRQ_ISSUE: "the kernel has an interrupt problem with this GPU: see dmesg",
    RESET_REQUIRED: "needs a reset: end this console and all else that holds it, then nvidia-smi --gpu-reset",
    OPERATING_SYSTEM: "the operating system blocked the request: a container without this device, or a cgroup rule",
    UNKNOWN: "the driver reports an unknown error of this GPU: see dmesg for Xid",
}

_DRIVER_ERRORS = {
    DRIVER_NOT_LOADED: "the NVIDIA kernel module is not loaded: run 'modprobe nvidia'; if that fails, see dmesg",
    NO_PERMISSION: "no permission to use the NVIDIA driver: this user needs read and write access to /dev/nvidia*",
    GPU_IS_LOST: "the NVIDIA driver does not start, a GPU fell off the bus: see dmesg for Xid; reset it or reboot",
    OPERATING_SYSTEM: "the system blocks the NVIDIA driver: a container without its devices, or a cgroup rule",
    UNKNOWN: "the NVIDIA driver reports an unknown error: see dmesg for Xid and NVRM lines",
}

_HW_SLOWDOWN = 0x8
_HW_SLOWDOWN_CAUSES = 0x40 | 0x80
_IDLE = 0x1

_THROTTLE = (
    (0x4, "power cap"),
    (0x40, "thermal (hardware)"),
    (0x20, "thermal (software)"),
    (0x80, "power brake (hardware)"),
    (_HW_SLOWDOWN, "hardware slowdown"),
    (0x2, "clocks set by the user"),
    (0x10, "sync boost"),
    (0x100, "display clocks"),
    (0x200, "board limit"),
    (0x400, "reliability limit"),
)


def throttle_words(mask: int) -> List[str]:
    """Return the reasons in ``mask`` (nvmlClocksEventReasons) that hold clocks down, most telling first; idle is none.

    "Hardware slowdown" is the driver's summary of the thermal and power-brake bits: named only when it comes alone.
    """
    rest = mask & ~_IDLE
    if rest & _HW_SLOWDOWN_CAUSES:
        rest &= ~_HW_SLOWDOWN
    words = []
    for bit, word in _THROTTLE:
        if rest & bit:
            words.append(word)
            rest &= ~bit
    if rest:
        words.append("unknown reason 0x%x" % rest)
    return words


def gpu_error(code: int, text: str) -> Tuple[str, str]:
    """Return (state, reason) of a GPU whose calls fail with ``code``; ``text`` is NVML's own words for it."""
    if code == GPU_IS_LOST:
        return "lost", LOST
    return "error", _GPU_ERRORS.get(code) or "the driver refuses this GPU: NVML error %d (%s)" % (code, text)


def driver_error(code: int, text: str, kernel: Optional[str], library: Optional[str]) -> Tuple[str, str]:
    """Return (state, text) of a driver that does not start; ``kernel`` and ``library`` are the versions, if known."""
    if code == LIB_RM_VERSION_MISMATCH:
        return "mismatch", _mismatch(kernel, library)
    if code == LIBRARY_NOT_FOUND:
        return "absent", "no NVIDIA driver on this host"
    return "error", _DRIVER_ERRORS.get(code) or "the NVIDIA driver does not start: NVML error %d (%s)" % (code, text)


def _mismatch(kernel: Optional[str], library: Optional[str]) -> str:
    versions = ""
    if kernel or library:
        versions = " (%s and %s)" % (kernel or "unknown", library or "unknown")
    return (
        "driver/library version mismatch: kernel module and libnvidia-ml differ%s; "
        "reboot or reload the module, then connect again" % versions
    )


def driver_silence(seconds: float) -> str:
    """Return what it means that the driver as a whole has not answered for ``seconds``."""
    return (
        "no answer from the driver for %d s; it is still starting (slow without persistence mode), "
        "or a GPU fell off the bus: see dmesg for Xid" % seconds
    )


def gpu_silence(seconds: float) -> str:
    """Return what it means that one GPU has not answered for ``seconds``."""
    return "no answer from the driver for %d s; it may have fallen off the bus: see dmesg for Xid" % seconds


def kernel_module_version(text: str) -> Optional[str]:
    """Return the version in ``text``, the content of /proc/driver/nvidia/version; None when there is none."""
    for line in text.splitlines():
        if line.startswith("NVRM"):
            found = re.search(r"\s(\d+\.\d+(?:\.\d+)*)\s", line + " ")
            return found.group(1) if found else None
    return None


def library_driver_version(nvml_version: str) -> Optional[str]:
    """Return the driver version that libnvidia-ml belongs to; ``nvml_version`` has the CUDA major before it."""
    head, _, version = nvml_version.partition(".")
    return version if head.isdigit() and version else None
