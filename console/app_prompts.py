"""AppPrompts: the questions of a connection as dialogs."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from textual.app import App
from textual.screen import Screen

from console.host.prompts import HostKeyQuestion

Answer = TypeVar("Answer")


class AppPrompts:
    """Pushes a dialog for each question; one that is cancelled takes its dialog off the screen."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app

    async def accept_host_key(self, question: HostKeyQuestion) -> bool:
        """Return True when the operator trusts this key."""
        from console.screens.hostkey import HostKeyScreen

        trusted: bool | None = await self._ask(HostKeyScreen(question))
        return trusted is True

    async def secret(self, title: str, prompt: str, *, echo: bool = False) -> str | None:
        """Return what the operator typed; None when they gave up."""
        from console.screens.secret import SecretScreen

        return await self._ask(SecretScreen(title, prompt, echo))

    async def _ask(self, screen: Screen[Answer]) -> Answer | None:
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def take(answer: Answer | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        await self._app.push_screen(screen, take)
        try:
            return await answered
        finally:
            if answered.cancelled() and screen.is_current:
                screen.dismiss(None)
