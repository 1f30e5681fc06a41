"""What the operator sets in ``~/.config/eagle3-console/config.toml``. Nothing else is ever written there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from console.host.thresholds import Thresholds
from console.validated import read_toml

APP_FOLDER = "eagle3-console"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HostSettings(_Strict):
    """One host, under the name that ``--host`` takes."""

    address: Annotated[str, Field(min_length=1)]
    """``local``, an alias of ssh_config, or ``[user@]host[:port]``."""
    python: str = "python3"
    """Python of the host, 3.9 or newer."""
    identity_files: tuple[Path, ...] = ()
    """Private keys to try; empty: what ssh_config and the agent offer."""
    jump: tuple[str, ...] = ()
    """Hosts to go through, first one first, each ``[user@]host[:port]``; empty: ProxyJump of ssh_config counts."""
    ssh_config: Path | None = None
    """Another file than ~/.ssh/config."""
    disks: tuple[str, ...] = ("/",)
    """Paths on the host whose free space is shown."""
    interval_s: Annotated[float, Field(ge=0.5, le=60)] = 1.0
    """Seconds between samples."""
    simulated_gpus: bool = False
    """For the demo's host: its GPUs are simulated, and shown as such."""

    @field_validator("address")
    @classmethod
    def _no_blanks(cls, value: str) -> str:
        if any(char.isspace() for char in value) or value.startswith("-"):
            raise ValueError("expected local, an alias of ssh_config, or [user@]host[:port]")
        return value

    @field_validator("jump", mode="before")
    @classmethod
    def _one_hop(cls, value: object) -> object:
        return tuple(hop.strip() for hop in value.split(",") if hop.strip()) if isinstance(value, str) else value

    @field_validator("disks")
    @classmethod
    def _absolute(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(not path.startswith("/") for path in value):
            raise ValueError("expected absolute paths on the host, such as /data")
        return value

    @field_validator("identity_files", "ssh_config")
    @classmethod
    def _home(cls, value: tuple[Path, ...] | Path | None) -> tuple[Path, ...] | Path | None:
        if isinstance(value, tuple):
            return tuple(path.expanduser() for path in value)
        return value.expanduser() if value else value


class ThresholdSettings(_Strict):
    """From which figure the dashboard warns."""

    temperature_warn_c: Annotated[float, Field(ge=0, le=150)] = 80.0
    temperature_danger_c: Annotated[float, Field(ge=0, le=150)] = 88.0
    memory_warn_percent: Annotated[float, Field(gt=0, le=101)] = 92.0
    """Of a GPU's memory."""
    disk_free_warn_percent: Annotated[float, Field(ge=0, le=100)] = 10.0
    stale_after_s: Annotated[float, Field(ge=1, le=60)] = 3.0
    """Data older than this is dimmed, and no action starts from it."""

    def limits(self) -> Thresholds:
        """Return them for the pure functions that draw."""
        return Thresholds(**self.model_dump())


class Settings(_Strict):
    """The whole file; every part may be left out."""

    theme: str = "dark"
    hosts: dict[str, HostSettings] = {}
    thresholds: ThresholdSettings = ThresholdSettings()
    keymap: dict[str, str] = {}
    """Binding id → key, or keys with commas between: ``"process.kill" = "ctrl+k"``."""

    @field_validator("keymap")
    @classmethod
    def _keys(cls, value: dict[str, str]) -> dict[str, str]:
        if any(not part.strip() for keys in value.values() for part in keys.split(",")):
            raise ValueError('expected a key such as "p" or "ctrl+k", or several with commas between')
        return {name: ",".join(part.strip() for part in keys.split(",")) for name, keys in value.items()}


def config_folder() -> Path:
    """Return ``$XDG_CONFIG_HOME/eagle3-console``, by default below ~/.config."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / APP_FOLDER


def state_folder() -> Path:
    """Return ``$XDG_STATE_HOME/eagle3-console``, by default below ~/.local/state."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / APP_FOLDER


def load_settings(path: Path | None = None) -> Settings:
    """Return the settings in ``path``, or in the operator's config.toml; defaults when that one does not exist.

    Raises:
        SettingsError: the file is not readable or holds something that is not known or not possible.
    """
    if path is None:
        path = config_folder() / "config.toml"
        if not path.exists():
            return Settings()
    return read_toml(path, Settings)
