"""The demo's SSH host: commands run for real on this machine, for the holder of one throw-away key, on loopback.

``python -m console.demo.server STATE_FOLDER`` writes the client key and known_hosts there, prints ``{"port": n}`` when
it listens, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from console.demo.state import DemoFolder

if TYPE_CHECKING:
    import asyncssh

CHUNK_BYTES = 64 * 1024
HANGUP_GRACE_S = 5.0
"""How long a command may live on after its channel closed: the agent ends by itself at end of input."""


def main() -> int:
    """Serve until standard input ends; return the exit code."""
    folder = DemoFolder(Path(sys.argv[1]))
    asyncio.run(serve(folder))
    return 0


async def serve(folder: DemoFolder) -> None:
    """Make the keys, listen on a free port of 127.0.0.1, and serve until standard input ends."""
    import asyncssh

    host_key = asyncssh.generate_private_key("ssh-ed25519", comment="eagle3-console demo host")
    client_key = asyncssh.generate_private_key("ssh-ed25519", comment="eagle3-console demo")
    commands: set[asyncio.Task[None]] = set()

    def on_process(process: asyncssh.SSHServerProcess[bytes]) -> None:
        # Not a task of the connection: it must outlive a lost one to end what it started.
        task = asyncio.create_task(run_command(process))
        commands.add(task)
        task.add_done_callback(commands.discard)

    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=asyncssh.import_authorized_keys(client_key.export_public_key().decode("ascii")),
        process_factory=on_process,
        encoding=None,
        allow_pty=False,
        agent_forwarding=False,
        x11_forwarding=False,
        password_auth=False,
        kbdint_auth=False,
        host_based_auth=False,
        gss_host=None,
        gss_auth=False,
        gss_kex=False,
    )
    port = listener.get_port()
    write_private(folder.client_key, client_key.export_private_key("openssh"))
    public = host_key.export_public_key().decode("ascii").split()
    folder.known_hosts.write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n", encoding="ascii")
    print(json.dumps({"port": port}), flush=True)

    await end_of_input()
    listener.close()
    for task in list(commands):
        task.cancel()
    await asyncio.gather(*commands, return_exceptions=True)


async def run_command(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Run the command that ``process`` asks for, as sshd would: by a shell, with its three streams."""
    if process.command is None or process.subsystem:
        process.stderr.write(b"The demo's host runs commands only: it has no shell and no subsystems.\n")
        process.exit(1)
        return
    try:
        child = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            process.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        process.stderr.write(f"The demo's host cannot start a command: {error}.\n".encode())
        process.exit(126)
        return
    beside = [
        asyncio.create_task(feed(process.stdin, child)),
        asyncio.create_task(end_after_hangup(process, child)),
    ]
    try:
        await asyncio.gather(copy(child.stdout, process.stdout), copy(child.stderr, process.stderr))
        report_end(process, await child.wait())
    finally:
        for task in beside:
            task.cancel()
        kill_group(child)


async def feed(source: asyncssh.SSHReader[bytes], child: asyncio.subprocess.Process) -> None:
    """Copy what the client sends to the command's standard input, no faster than it reads, and close it at the end."""
    import asyncssh

    assert child.stdin is not None
    try:
        while True:
            try:
                data = await source.read(CHUNK_BYTES)
            except (asyncssh.SignalReceived, asyncssh.BreakReceived, asyncssh.TerminalSizeChanged):
                continue
            if not data:
                break
            child.stdin.write(data)
            await child.stdin.drain()
    except (OSError, asyncssh.Error):
        pass
    finally:
        child.stdin.close()


async def copy(source: asyncio.StreamReader | None, target: asyncssh.SSHWriter[bytes]) -> None:
    """Copy what the command prints to the client, no faster than it takes it; dropped once the channel is closed."""
    import asyncssh

    assert source is not None
    while data := await source.read(CHUNK_BYTES):
        with contextlib.suppress(OSError, asyncssh.Error):
            target.write(data)
            await target.drain()


def report_end(process: asyncssh.SSHServerProcess[bytes], status: int) -> None:
    """Tell the client how the command ended, if it is still there."""
    with contextlib.suppress(OSError):
        if status < 0:
            process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
        else:
            process.exit(status)


async def end_after_hangup(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    """When the channel is gone, give the command a moment to see the end of its input, then kill it."""
    await process.channel.wait_closed()
    await asyncio.sleep(HANGUP_GRACE_S)
    kill_group(child)


def kill_group(child: asyncio.subprocess.Process) -> None:
    """Kill the command's process group unless the command has ended."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def write_private(path: Path, data: bytes) -> None:
    """Write a new file that only its owner may read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


async def end_of_input() -> None:
    """Wait until standard input ends: its other end is held by the demo's supervisor."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        if not os.read(0, CHUNK_BYTES):
            loop.remove_reader(0)
            ended.set()

    loop.add_reader(0, on_readable)
    await ended.wait()


if __name__ == "__main__":
    sys.exit(main())
