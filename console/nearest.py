"""Name the key that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return ``; did you mean "address"?``, or ``; known are: a, b`` when nothing is near."""
    names = sorted(known)
    near = difflib.get_close_matches(wrong, names, n=1, cutoff=0.5)
    if near:
        return f'; did you mean "{near[0]}"?'
    return f"; known are: {', '.join(names)}" if names else ""
