"""Which actions of this host are under way, as its ``action`` events tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.agent import protocol


class RunningActions:
    """Follows ``action`` events; ``names`` holds the op of each action that has not ended, by its id."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one event of the link; a new conversation knows nothing of the actions of the one before."""
        name = event.get("ev")
        if name == protocol.HELLO:
            self.names.clear()
        elif name == protocol.ACTION:
            action_id = str(event.get("action_id", ""))
            if event.get("done"):
                self.names.pop(action_id, None)
            else:
                self.names[action_id] = str(event.get("op", "action"))
