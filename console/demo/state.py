"""The demo's state folder: where everything of one demo lives, and nothing of it elsewhere."""

from __future__ import annotations

import getpass
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The paths in a demo's state folder (mode 0700)."""

    path: Path

    @classmethod
    def make(cls) -> DemoFolder:
        """Make a new one under the system's folder for temporary files.

        Raises:
            OSError: it cannot be written there.
        """
        folder = cls(Path(tempfile.mkdtemp(prefix="eagle3-demo-")))
        folder.home.mkdir(mode=0o700)
        return folder

    @property
    def client_key(self) -> Path:
        """The one private key that the demo's server lets in. The host's private key is never written."""
        return self.path / "client_key"

    @property
    def known_hosts(self) -> Path:
        """Holds the server's public key, so that the console verifies it as it would any host's."""
        return self.path / "known_hosts"

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F` and `eagle3-console --ssh-config`: one host named demo."""
        return self.path / "ssh_config"

    @property
    def config(self) -> Path:
        """For `eagle3-console --config`: one host named demo."""
        return self.path / "config.toml"

    @property
    def gpu_map(self) -> Path:
        """Which simulated GPU each rank holds."""
        return self.path / "gpus.json"

    @property
    def records(self) -> Path:
        """What the computing job writes."""
        return self.path / "records.jsonl"

    @property
    def home(self) -> Path:
        """HOME of what runs on the demo's host: its audit file ends up here, and goes with the folder."""
        return self.path / "home"

    @property
    def log(self) -> Path:
        """What the demo's own processes had to say."""
        return self.path / "demo.log"

    def write_ssh_config(self, user: str, port: int) -> None:
        """Write `ssh_config`."""
        text = f"""\
Host demo
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {self.client_key}
  IdentitiesOnly yes
  UserKnownHostsFile {self.known_hosts}
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
"""
        self.ssh_config.write_text(text, encoding="utf-8")

    def write_config(self, python: str, simulated_gpus: bool) -> None:
        """Write `config.toml`; ``python`` runs the agent."""
        text = f"""\
[hosts.demo]
address = "demo"
ssh_config = {toml(self.ssh_config)}
python = {toml(python)}
simulated_gpus = {str(simulated_gpus).lower()}
"""
        self.config.write_text(text, encoding="utf-8")


def user_name() -> str:
    """Return the operator's user name; a container's uid may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "demo"


def toml(value: object) -> str:
    """Return ``value`` as a TOML basic string, whose escapes are JSON's."""
    return json.dumps(str(value), ensure_ascii=False)
