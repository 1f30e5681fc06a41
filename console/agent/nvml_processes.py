"""Who holds memory of a GPU, from the several lists that NVML keeps of that."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

from console.agent.nvml_calls import Calls, number

Held = List[Tuple[int, Optional[int]]]
"""(pid, bytes) of one view of a GPU's memory; bytes is None where the driver does not say."""


def merge_views(views: Iterable[Held]) -> Dict[int, Optional[int]]:
    """Return pid → bytes over several views of the same memory.

    Within a view a pid's entries add up (one for each MIG instance that it uses); between views the largest counts,
    since the compute, graphics and MPS lists each give the whole memory of a process that is in more than one. A pid
    whose memory no view tells has None.
    """
    merged: Dict[int, Optional[int]] = {}
    for view in views:
        sums: Dict[int, Optional[int]] = {}
        for pid, held in view:
            before = sums.get(pid)
            sums[pid] = before if held is None else held + (before or 0)
        for pid, held in sums.items():
            before = merged.get(pid)
            merged[pid] = before if held is None or (before is not None and before > held) else held
    return merged


def process_views(calls: Calls, handles: Iterable[Any]) -> List[Held]:
    """Return the compute, graphics and MPS lists over ``handles``, each one view; a refused one is left out."""
    handles = list(handles)
    views: List[Held] = []
    for kind in ("Compute", "Graphics", "MPSCompute"):
        name = "nvmlDeviceGet%sRunningProcesses" % kind
        view: Held = []
        given = False
        for handle in handles:
            # By version: where an older driver lacks it, pynvml's name without one raises what is no NVMLError.
            rows = calls(name + "_v3", handle)
            if rows is None:
                rows = calls(name + "_v2", handle)
            if rows is not None:
                given = True
                view += [(row.pid, number(row.usedGpuMemory)) for row in rows]
        if given:
            views.append(view)
    return views


def mig_handles(calls: Calls, handle: Any) -> List[Any]:
    """Return the handles of the MIG instances of the GPU ``handle``."""
    count = calls("nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    found = (calls("nvmlDeviceGetMigDeviceHandleByIndex", handle, index) for index in range(count))
    return [mig for mig in found if mig is not None]
