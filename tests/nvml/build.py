"""Builds the NVML stand-in and writes its scenarios, so that tests run the real pynvml against made-up hardware.

A scenario is a text file, one fact a line; `#` starts no comment, unknown words are reported on stderr:

    count 8                          GPUs
    driver 550.54.15                 also `nvml 12.550.54.15`, `cuda 12040`
    init CODE                        nvmlInit returns it; `init hang`: it blocks until the scenario changes
    missing FUNCTION                 an older driver that lacks it, such as nvmlDeviceGetMemoryInfo_v2
    gpu I lost                       every call returns NVML_ERROR_GPU_IS_LOST
    gpu I hang                       every call blocks until the scenario changes
    gpu I na FIELD                   NVML_ERROR_NOT_SUPPORTED; FIELD: handle name uuid memory utilisation temperature
                                     power power_limit clock ecc throttle pcie mig processes mig_processes, or all
    gpu I fail FIELD CODE            any other error
    gpu I mem USED TOTAL             bytes; also `util GPU MEMORY` (%), `temp C`, `power MILLIWATTS LIMIT`,
                                     `clocks SM MEMORY` (MHz), `throttle HEX`, `ecc UNCORRECTED CORRECTED`,
                                     `pcie TX RX` (KB/s), `mig INSTANCES`, `name TEXT`
    gpu I proc PID BYTES [LIST [MIG]]  BYTES may be NA; LIST: compute (default), graphics, mps; MIG: its instance
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("standin.c")


def build_standin(folder: Path) -> Path:
    """Compile the stand-in into ``folder`` as libnvidia-ml.so.1 and return ``folder``, for LD_LIBRARY_PATH.

    Raises:
        RuntimeError: there is no C compiler, or it refuses the source.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("the NVML stand-in needs a C compiler: install gcc")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden"]
    command += ["-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(SOURCE), "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the NVML stand-in does not compile:\n{done.stderr}")
    return folder


def standin_env(libdir: Path, scenario_path: Path) -> dict[str, str]:
    """Return what to add to a process's environment so that its pynvml loads the stand-in with this scenario."""
    before = os.environ.get("LD_LIBRARY_PATH")
    path = f"{libdir}:{before}" if before else str(libdir)
    return {"LD_LIBRARY_PATH": path, "NVML_STANDIN": str(scenario_path)}


class Scenario:
    """The scenario file at ``path``: replaced whole on every change, so the stand-in never reads half of one."""

    def __init__(self, path: Path, *lines: str) -> None:
        self.path = path
        self.write(*lines)

    def write(self, *lines: str) -> None:
        """Replace all facts by ``lines``."""
        self.lines = list(lines)
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        fresh.replace(self.path)

    def add(self, *lines: str) -> None:
        """Add facts to those there are."""
        self.write(*self.lines, *lines)

    def remove(self, *lines: str) -> None:
        """Take facts away; each must be there."""
        left = list(self.lines)
        for line in lines:
            left.remove(line)
        self.write(*left)
