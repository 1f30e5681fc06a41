"""`eagle3-console`: the console, and every action without a screen. Imports nothing heavy: `--help` must be quick."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from console import __version__
from console.exits import BAD_INPUT, CANNOT_RUN, INTERRUPTED, LINK, OK

ACTION_HELP = {
    "pause": "stop a process and its tree where they are (SIGSTOP) and verify that all stand",
    "resume": "let a paused process and its tree go on (SIGCONT)",
    "stop": "ask the main process to end (SIGTERM) and wait until its whole tree is gone",
    "kill": "end a process and its tree at once (SIGKILL)",
}

EXIT_CODES = "exit codes: 0 done and verified, 2 bad input, 3 refused, 4 not verified in time, 5 no link"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; no traceback ever reaches the operator."""
    try:
        try:
            arguments = make_parser().parse_args(argv)
            return arguments.run(arguments)
        finally:
            # Here and not at exit, where Python would report a reader that went away in its own words.
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) went away: nothing is wrong, and nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        return _explain(error)


def _explain(error: Exception) -> int:
    from console.agent.protocol import printable
    from console.host.errors import LinkError, RequestError, SettingsError

    if isinstance(error, SettingsError):
        print(f"eagle3-console: {error}", file=sys.stderr)
        return BAD_INPUT
    if isinstance(error, LinkError | RequestError):
        print(f"eagle3-console: {printable(str(error))}", file=sys.stderr)
        return LINK
    if isinstance(error, OSError):
        print(f"eagle3-console: {printable(str(error))}", file=sys.stderr)
        return CANNOT_RUN
    from console.crash import record_crash

    print(record_crash(error), file=sys.stderr)
    return CANNOT_RUN


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence and ends with exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and leave."""
        from console.agent.protocol import printable

        print(f"{self.prog}: {printable(message)} (see `{self.prog} --help`)", file=sys.stderr)
        sys.exit(BAD_INPUT)


def make_parser() -> Parser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="eagle3-console",
        description="Watch a GPU host over SSH, and pause, stop or kill exactly the processes you saw. "
        "Without a command: the console on --host.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"eagle3-console {__version__}")
    _add_common(parser, first=True)
    parser.set_defaults(run=_console)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands without a screen", parser_class=Parser)
    _add_ps(commands)
    _add_plain(commands, "gpus", "list the GPUs and who holds their memory", _gpus)
    audit = _add_plain(commands, "audit", "list the actions that were taken on the host, newest first", _audit)
    audit.add_argument("--limit", type=_positive, default=50, metavar="N", help="at most so many records (default: 50)")
    _add_plain(commands, "doctor", "check all that a connection needs and say what to do", _doctor)
    for name, text in ACTION_HELP.items():
        _add_action(commands, name, text)
    demo = commands.add_parser(
        "demo",
        help="a throw-away SSH host on this machine with real jobs, in the console",
        description="A throw-away SSH host on this machine with real jobs; what is simulated says so.",
    )
    demo.add_argument("--no-ui", action="store_true", help="only start the host and print how to connect to it")
    demo.add_argument(
        "--config", type=Path, default=argparse.SUPPRESS, metavar="FILE", help="settings instead of the usual"
    )
    demo.set_defaults(run=_demo)
    return parser


def _add_common(parser: argparse.ArgumentParser, first: bool = False) -> None:
    # Accepted before and after the command; only the first place has a default, so the second does not undo it.
    missing = None if first else argparse.SUPPRESS
    parser.add_argument(
        "--host",
        default="local" if first else argparse.SUPPRESS,
        metavar="HOST",
        help="a name of your configuration, an alias of ~/.ssh/config, user@host[:port], or local (default)",
    )
    parser.add_argument(
        "--config", type=Path, default=missing, metavar="FILE", help="settings instead of the usual config.toml"
    )
    parser.add_argument("--ssh-config", type=Path, default=missing, metavar="FILE", help="instead of ~/.ssh/config")
    parser.add_argument(
        "--accept-host-key",
        default=missing,
        metavar="SHA256:...",
        help="trust an unknown host key with this fingerprint, where nobody can be asked",
    )


def _add_plain(
    commands: argparse._SubParsersAction[Parser], name: str, text: str, run: object
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".", epilog=EXIT_CODES)
    _add_common(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)
    return parser


def _add_ps(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = _add_plain(commands, "ps", "list the host's processes with CPU, memory, GPU memory and identity", _ps)
    parser.add_argument(
        "text", nargs="?", default="", metavar="TEXT", help="only those with this text in argv, user or pid; never ours"
    )
    parser.add_argument("--gpu", action="store_true", help="only processes that hold GPU memory")
    parser.add_argument("--mine", action="store_true", help="only processes of the user we are logged in as")
    parser.add_argument("--kernel", action="store_true", help="kernel threads as well (JSON always has them)")


def _add_action(commands: argparse._SubParsersAction[Parser], name: str, text: str) -> None:
    parser = _add_plain(commands, name, text, _act)
    parser.add_argument("pid", type=_pid, metavar="PID", help="the process, as ps shows it")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--tree", dest="scope", action="store_const", const="tree", help="the process and its set (default)"
    )
    scope.add_argument("--only", dest="scope", action="store_const", const="only", help="this one process alone")
    parser.add_argument(
        "--start-ticks",
        type=_natural,
        default=None,
        metavar="N",
        help="refuse when PID is not the process that started then (from ps --json)",
    )
    if name == "stop":
        parser.add_argument(
            "--grace", type=_seconds, default=45.0, metavar="S", help="seconds to wait for the end (default: 45)"
        )
    else:
        parser.add_argument("--grace", type=_seconds, default=45.0, metavar="S", help=argparse.SUPPRESS)
    parser.add_argument("--yes", action="store_true", help="do not ask; needed where there is no terminal to ask on")
    parser.set_defaults(action=name, scope="tree")


def _pid(text: str) -> int:
    number = _natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a pid: a number of 1 or more is needed")
    return number


def _natural(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _positive(text: str) -> int:
    number = _natural(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds between 0 and 86400")
    return seconds


def _console(arguments: argparse.Namespace) -> int:
    from console.oneshot.screen import run_console

    return run_console(arguments)


def _ps(arguments: argparse.Namespace) -> int:
    from console.oneshot.listing import run_ps

    return run_ps(arguments)


def _gpus(arguments: argparse.Namespace) -> int:
    from console.oneshot.listing import run_gpus

    return run_gpus(arguments)


def _audit(arguments: argparse.Namespace) -> int:
    from console.oneshot.listing import run_audit

    return run_audit(arguments)


def _act(arguments: argparse.Namespace) -> int:
    from console.oneshot.acting import run_action

    return run_action(arguments)


def _doctor(arguments: argparse.Namespace) -> int:
    from console.oneshot.doctor import run_doctor

    return run_doctor(arguments)


def _demo(arguments: argparse.Namespace) -> int:
    from console.demo.main import run_demo

    return run_demo(arguments)


if __name__ == "__main__":
    sys.exit(main())
