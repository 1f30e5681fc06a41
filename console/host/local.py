"""An agent on this machine: the same program as on a far host, over the pipes of a child process."""

from __future__ import annotations

import asyncio
import contextlib

from console.host.bootstrap import BOOTSTRAP
from console.host.channel import LineReader, Tail
from console.host.ending import explain_exit
from console.host.errors import LinkError, LinkRefused

HERE = "this machine"
END_PATIENCE_S = 2.0
LAST_WORDS_PATIENCE_S = 8.0
"""The agent may take some seconds after the end of its input to note the outcome of an action in the audit file."""


async def open_local(python: str, bundle: bytes) -> LocalChannel:
    """Start an agent under the interpreter ``python`` and send it ``bundle``.

    Raises:
        LinkRefused: there is no such program.
        LinkError: the process could not be started now.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            python,
            "-u",
            "-c",
            BOOTSTRAP,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl+C in the terminal goes to the whole foreground group: no agent may die half-way through an action.
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError):
        raise LinkRefused(
            f"{python} was not found on {HERE}; set `python` for this host to a Python 3.9 or newer"
        ) from None
    except PermissionError:
        raise LinkRefused(f"{python} on {HERE} cannot be run: permission denied") from None
    except OSError as error:
        raise LinkError(f"The agent could not be started on {HERE}: {error.strerror}") from None
    channel = LocalChannel(process, python)
    channel.write(bundle)
    return channel


class LocalChannel:
    """The channel to a child process; see :class:`console.host.channel.Channel`."""

    def __init__(self, process: asyncio.subprocess.Process, python: str) -> None:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._process = process
        self._python = python
        self._stdin = process.stdin
        self._lines = LineReader(process.stdout.read)
        self._stderr = Tail(process.stderr.read)

    @property
    def received_at(self) -> float:
        """Local monotonic seconds when bytes last arrived."""
        return self._lines.received_at

    async def readline(self) -> bytes:
        """Return the next line, b"" at the end."""
        return await self._lines.readline()

    def write(self, data: bytes) -> None:
        """Queue ``data`` for the agent."""
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def drain(self) -> None:
        """Wait until the queue is short."""
        with contextlib.suppress(OSError):
            await self._stdin.drain()

    async def close(self) -> None:
        """End the agent by the end of its input, by SIGTERM, by SIGKILL, whichever it takes."""
        self._stdin.close()
        for push in (None, self._process.terminate, self._process.kill):
            if push:
                with contextlib.suppress(ProcessLookupError):
                    push()
            patience_s = END_PATIENCE_S if push else LAST_WORDS_PATIENCE_S
            try:
                async with asyncio.timeout(patience_s):
                    await self._process.wait()
                break
            except TimeoutError:
                continue
        await self._stderr.close()

    async def explain(self, said: str, *, started: bool) -> LinkError:
        """Return why the agent ended."""
        try:
            async with asyncio.timeout(END_PATIENCE_S):
                status: int | None = await self._process.wait()
        except TimeoutError:
            # It closed its output and lives on: as good as a broken link.
            status = None
        return explain_exit(status, await self._stderr.text(), self._python, HERE, said=said, started=started)
