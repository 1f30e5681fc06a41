"""`eagle3-pipeline`: runs one stage. This version has no stage, and says so."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

EXIT_BAD_INPUT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 for help and version, 2 for a stage that does not exist."""
    parser = argparse.ArgumentParser(
        prog="eagle3-pipeline",
        description="Runs one stage of making an EAGLE-3 draft model.",
        epilog=f"Version {_version()} has no stages yet: it holds the console alone (eagle3-console).",
    )
    parser.add_argument("--version", action="version", version=f"eagle3-pipeline {_version()}")
    parser.add_argument("stage", metavar="STAGE", help="the stage to run")
    # The options of a stage are its own: whatever follows its name must not hide that it does not exist.
    arguments, _ = parser.parse_known_args(argv)
    print(
        f"eagle3-pipeline {_version()} has no stages yet, so {arguments.stage!r} cannot be run: "
        "this version holds the console alone (eagle3-console).",
        file=sys.stderr,
    )
    return EXIT_BAD_INPUT


def _version() -> str:
    try:
        return version("eagle3-console")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
