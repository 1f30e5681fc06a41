"""Which columns fit into how many cells. Pure: widgets ask, and draw what they are told."""

from __future__ import annotations

from dataclasses import dataclass

COMMAND_MIN = 24
"""Cells that the command keeps before a column of figures is dropped."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the process table: its key, heading, width in cells and alignment."""

    key: str
    heading: str
    width: int
    right: bool = False


_PID = Column("pid", "PID", 7, right=True)
_STATE_SHORT = Column("state", "ST", 2)
_STATE_LONG = Column("state", "STATE", 6)
_GPU = Column("gpu", "GPU MEM", 8, right=True)
_CPU = Column("cpu", "CPU", 5, right=True)
_RSS = Column("rss", "RSS", 6, right=True)
_AGE = Column("age", "AGE", 7, right=True)
_THREADS = Column("threads", "THR", 4, right=True)


def process_columns(width: int) -> tuple[Column, ...]:
    """Return the columns left of the command for a table of ``width`` cells, with one blank after each.

    From 76 cells everything essential is there; wider tables spell the state and add threads; narrower ones drop the
    RSS, the user, then the age, and never the pid, the state, the GPU memory or the CPU.
    """
    user = Column("user", "USER", 12 if width >= 140 else 8 if width >= 90 else 6)
    state = _STATE_LONG if width >= 96 else _STATE_SHORT
    threads = (_THREADS,) if width >= 140 else ()
    columns = (_PID, user, state, _GPU, _CPU, _RSS, _AGE, *threads)
    for dropped in ("rss", "user", "age"):
        if width - taken(columns) >= COMMAND_MIN:
            break
        columns = tuple(c for c in columns if c.key != dropped)
    return columns


def taken(columns: tuple[Column, ...]) -> int:
    """Return the cells that ``columns`` and their blanks take."""
    return sum(c.width + 1 for c in columns)


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """Cells of the parts of one GPU's line; 0 leaves the part out."""

    bar: int
    spark: int
    clocks: bool


SPARK_WIDTHS = (60, 30, 20, 15, 12, 10, 6)
"""Widths that share out 60 samples evenly."""


def gpu_figures(width: int) -> GpuFigures:
    """Return how a full GPU line of ``width`` cells is shared out: fixed figures first, then bar, sparkline, owner."""
    clocks = width >= 150
    # index 2, memory 12, utilisation 5, temperature 6, power 10, blanks 5; clocks and notes 22
    free = max(0, width - 40 - (22 if clocks else 0))
    bar = min(30, max(6, free * 30 // 100))
    spark = next((cells for cells in SPARK_WIDTHS if cells <= free * 30 // 100), 0)
    return GpuFigures(bar=bar, spark=spark, clocks=clocks)


def gpu_cells_per_line(width: int, count: int) -> int:
    """Return how many GPUs of the small form go on a line of ``width`` cells, in rows of equal length."""
    at_most = max(1, width // SMALL_GPU)
    lines = -(-count // at_most) if count else 1
    return -(-count // lines) if count else 1


SMALL_GPU = 10
"""Cells of the small form of one GPU, its blank included: eight fit in 80."""
