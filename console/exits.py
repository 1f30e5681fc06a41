"""Exit codes of `eagle3-console`, the same for every command."""

from __future__ import annotations

OK = 0
CANNOT_RUN = 1
"""Something of this machine failed (a file that cannot be written), or an error of ours."""
BAD_INPUT = 2
REFUSED = 3
NOT_VERIFIED = 4
LINK = 5
INTERRUPTED = 130
