"""Every key of the current screen as a command of the palette."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.dom import DOMNode


class BindingCommands(Provider):
    """Offers what the bindings of the screen below the palette do, with their tooltips."""

    def _commands(self) -> Iterator[tuple[str, str, str, DOMNode]]:
        seen: set[str] = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.id and active.enabled and binding.action not in seen and not binding.id.startswith("tree."):
                seen.add(binding.action)
                yield binding.description, binding.tooltip, binding.action, active.node

    async def discover(self) -> Hits:
        """Yield all of them."""
        for name, help_text, action, node in self._commands():
            yield DiscoveryHit(name, partial(self.app.run_action, action, node), help=help_text)

    async def search(self, query: str) -> Hits:
        """Yield those whose name or tooltip matches ``query``."""
        matcher = self.matcher(query)
        for name, help_text, action, node in self._commands():
            score = max(matcher.match(name), matcher.match(help_text) * 0.8)
            if score > 0:
                yield Hit(score, matcher.highlight(name), partial(self.app.run_action, action, node), help=help_text)
