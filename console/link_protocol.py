"""What the application needs of a link; :class:`console.host.link.HostLink` is one, tests bring a scripted one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from console.host.link import LinkStatus
from console.host.state import HostState


class Link(Protocol):
    """One host: its frozen state, its status, requests and events."""

    @property
    def state(self) -> HostState:
        """The host's frozen state."""
        ...

    @property
    def status(self) -> LinkStatus:
        """How the link is."""
        ...

    def data_age_s(self) -> float:
        """Return seconds since the last ``procs`` event; inf before the first."""
        ...

    def listen(self, callback: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
        """Call ``callback`` for every later event, after it was folded; return a function that ends it."""
        ...

    def on_status(self, callback: Callable[[LinkStatus], None]) -> Callable[[], None]:
        """Call ``callback`` for every change of the status; return a function that ends it."""
        ...

    async def request(self, op: str, *, deadline_s: float, **arguments: Any) -> dict[str, Any]:
        """Send a request once and return its answer."""
        ...

    async def wait_up(self, deadline_s: float) -> None:
        """Return once the link is up."""
        ...

    async def run(self) -> None:
        """Keep the link up until it is closed."""
        ...

    def retry(self) -> None:
        """Try to connect now."""
        ...

    async def close(self) -> None:
        """End the link."""
        ...
