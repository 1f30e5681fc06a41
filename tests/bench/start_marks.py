"""Runs the console as `eagle3-console` does and writes when it got how far: ``python start_marks.py FILE WORDS...``.

Seconds are of the monotonic clock, which the measuring process shares.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

MARKS: dict[str, float] = {}


def mark(name: str) -> None:
    """Note the first time that ``name`` is reached."""
    if name not in MARKS:
        MARKS[name] = time.monotonic()
        Path(sys.argv[1]).write_text(json.dumps(MARKS))


def follow_link() -> None:
    """Mark the steps of the link."""
    from console.host import connect

    make_link, open_ssh = connect.make_link, connect.open_ssh

    def marked_link(*arguments: Any, **options: Any) -> Any:
        mark("imported")
        link = make_link(*arguments, **options)
        link.listen(take)
        return link

    async def marked_open(*arguments: Any, **options: Any) -> Any:
        mark("screen up, bundle made")
        channel = await open_ssh(*arguments, **options)
        mark("logged in")
        return channel

    connect.make_link, connect.open_ssh = marked_link, marked_open  # type: ignore[assignment]


def take(event: Mapping[str, Any]) -> None:
    """Mark the first of each event, and the end of the first list."""
    mark({"hello": "hello", "procs": "first rows arrived"}.get(event["ev"], event["ev"]))
    if event.get("complete"):
        mark("whole list arrived")


def run(main: Callable[..., int]) -> int:
    """Run the console with the words of the command line."""
    follow_link()
    return main(sys.argv[2:])


if __name__ == "__main__":
    mark("python runs")
    from console.cli import main

    sys.exit(run(main))
