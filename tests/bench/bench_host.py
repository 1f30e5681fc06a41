"""The host of the measurements: a real sshd behind a counting proxy, 2,000 processes and 8 GPUs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.bench.counting_proxy import CountingProxy
from tests.bench.crowd import Crowd
from tests.system.sshd import SshdServer

COMMAND = (sys.executable, "-c", "import sys; from console.cli import main; sys.exit(main())")


class BenchHost:
    """One host and its operator, whose home has the configuration for it under the name ``gpu1``."""

    def __init__(self, folder: Path, crowd: Crowd, nvml: dict[str, str]) -> None:
        self.crowd = crowd
        self.nvml = nvml
        self.sshd = SshdServer(folder / "sshd", environment=nvml).start()
        self.proxy = CountingProxy(self.sshd.port)
        self.address = f"{self.sshd.user}@127.0.0.1:{self.proxy.port}"
        self.python = sys.executable
        self.home = folder / "operator"
        self._write_operator()

    def _write_operator(self) -> None:
        (self.home / ".ssh").mkdir(parents=True)
        configuration = self.home / ".config/eagle3-console"
        configuration.mkdir(parents=True)
        known = self.sshd.known_hosts_line.split(" ", 1)[1]
        (self.home / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{self.proxy.port} {known}")
        settings = {
            "address": self.address,
            "python": self.python,
            "identity_files": [str(self.sshd.client_key_path)],
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        (configuration / "config.toml").write_text("\n".join(["[hosts.gpu1]", *lines, ""]))

    @property
    def environment(self) -> dict[str, str]:
        """The operator's environment, with byte code kept as on any installation."""
        dropped = ("SSH_AUTH_SOCK", "PYTHONDONTWRITEBYTECODE")
        kept = {k: v for k, v in os.environ.items() if not k.startswith("XDG_") and k not in dropped}
        return {**kept, "HOME": str(self.home), "PYTHONPYCACHEPREFIX": str(self.home / "pycache")}

    def argv(self, *words: str) -> list[str]:
        """Return the command line of the console on this host."""
        return [*COMMAND, *words, "--host", "gpu1"]

    def close(self) -> None:
        """End the server and the proxy."""
        self.proxy.close()
        self.sshd.stop()
