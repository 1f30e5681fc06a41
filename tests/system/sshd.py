"""A real OpenSSH server on loopback with keys, configuration and log of its own, for the current user."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

DEADLINE_S = 60.0
"""For anything that should take far less: a busy machine must not fail a test."""


def find_sshd() -> str:
    """Return the absolute path of sshd; sshd insists on being started by one."""
    found = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
    if not found:
        raise RuntimeError("These tests need OpenSSH's server: install the package openssh-server")
    return found


def make_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Make a key pair at ``path`` and ``path``.pub and return ``path``."""
    for stale in (path, public_half(path)):
        stale.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    if kind == "rsa":
        command += ["-b", "2048"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return path


def public_half(path: Path) -> Path:
    """Return the path of a key's public half."""
    return path.with_name(path.name + ".pub")


def fingerprint(path: Path) -> str:
    """Return what ssh-keygen says of a key file: an oracle of its own."""
    listing = subprocess.run(["ssh-keygen", "-l", "-f", str(path)], check=True, capture_output=True, text=True).stdout
    return listing.split()[1]


class SshdServer:
    """One sshd. ``home`` is the home folder of its sessions; ``options`` are lines of sshd_config that come first."""

    def __init__(
        self, folder: Path, *, options: tuple[str, ...] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        self.user = pwd.getpwuid(os.getuid()).pw_name
        self.port = 0
        self.client_key_path = make_key(folder / "client_key")
        self.host_key_path = make_key(folder / "host_ed25519")
        self._host_keys = [self.host_key_path]
        self._authorized = folder / "authorized_keys"
        self._options = options
        self._environment = {"HOME": str(self.home), **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.authorize(self.client_key_path)

    @property
    def address(self) -> str:
        """The target that a console connects to."""
        return f"{self.user}@127.0.0.1:{self.port}"

    @property
    def host_key_fingerprint(self) -> str:
        """The fingerprint of the ed25519 host key."""
        return fingerprint(self.host_key_path)

    @property
    def known_hosts_name(self) -> str:
        """The name of this server in known_hosts."""
        return f"[127.0.0.1]:{self.port}"

    @property
    def known_hosts_line(self) -> str:
        """The line of known_hosts that vouches for the ed25519 host key."""
        return self.line_for(self.host_key_path)

    def line_for(self, key: Path) -> str:
        """Return the line of known_hosts that would vouch for ``key``."""
        kind, blob = public_half(key).read_text().split()[:2]
        return f"{self.known_hosts_name} {kind} {blob}\n"

    @property
    def log(self) -> str:
        """What sshd has logged so far."""
        return self._log_path.read_text(errors="replace")

    @property
    def _log_path(self) -> Path:
        return self.folder / "sshd.log"

    def authorize(self, key: Path, restrictions: str = "") -> None:
        """Let the holder of ``key`` log in, under ``restrictions`` of authorized_keys."""
        with self._authorized.open("a") as file:
            file.write(f"{restrictions} {public_half(key).read_text()}".lstrip())

    def add_host_key(self, kind: str) -> Path:
        """Give the server a second host key before its start."""
        self._host_keys.append(make_key(self.folder / f"host_{kind}", kind=kind))
        return self._host_keys[-1]

    def drop_host_key(self, key: Path) -> None:
        """Take a host key away, for the next start."""
        self._host_keys.remove(key)

    def rotate_host_key(self) -> None:
        """Give the server a new ed25519 key and start it again: a host that was installed anew, or an impostor."""
        make_key(self.host_key_path)
        self.restart()

    def start(self) -> SshdServer:
        """Start listening; on the port of the last start if there was one."""
        if os.getuid() == 0:
            # The package makes it when its service starts, which it never did here.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        deadline = time.monotonic() + DEADLINE_S
        while not self._started(self.port or _free_port()):
            assert time.monotonic() < deadline, f"sshd does not start:\n{self.log}"
        return self

    def stop(self) -> None:
        """End the server and every session."""
        self.cut()
        if self._process is not None:
            self._process.terminate()
            self._process.wait(DEADLINE_S)
            self._process = None

    def restart(self) -> None:
        """End everything and listen again on the same port."""
        self.stop()
        self.start()

    def cut(self) -> None:
        """Kill the server's end of every session, as a crash or a reset would; the server goes on listening."""
        for session in self.sessions():
            with contextlib.suppress(psutil.NoSuchProcess):
                session.kill()
        psutil.wait_procs(self.sessions(), timeout=DEADLINE_S)

    def sessions(self) -> list[psutil.Process]:
        """Return the sshd processes of open sessions."""
        if self._process is None:
            return []
        try:
            children = psutil.Process(self._process.pid).children(recursive=True)
            return [child for child in children if child.name().startswith("sshd")]
        except psutil.NoSuchProcess:
            return []

    def _started(self, port: int) -> bool:
        self.port = port
        config = self.folder / "sshd_config"
        config.write_text(self._config())
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [find_sshd(), "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline and self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return True
            time.sleep(0.02)
        # Something else took the port in between, or listens no more.
        self._process.kill()
        self._process.wait()
        return False

    def _config(self) -> str:
        variables = " ".join(f'"{name}={value}"' for name, value in self._environment.items())
        return "\n".join(
            [
                *self._options,
                f"Port {self.port}",
                "ListenAddress 127.0.0.1",
                *(f"HostKey {key}" for key in self._host_keys),
                f"AuthorizedKeysFile {self._authorized}",
                f"SetEnv {variables}",
                "PidFile none",
                "StrictModes no",
                "UsePAM no",
                "UseDNS no",
                "PasswordAuthentication no",
                "KbdInteractiveAuthentication no",
                "PubkeyAuthentication yes",
                "PermitRootLogin prohibit-password",
                "AllowTcpForwarding yes",
                "PrintMotd no",
                "MaxStartups 100",
                "LogLevel VERBOSE",
                "",
            ]
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
