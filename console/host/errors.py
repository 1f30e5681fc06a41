"""What can go wrong on the operator's side, each with a sentence for the operator."""

from __future__ import annotations


class LinkError(Exception):
    """The link is down, broke, or missed a deadline. Whether a request in flight was carried out is not known."""


class LinkRefused(LinkError):
    """A link that must not be tried again by itself: host key, authentication, no or an old Python, another version."""


class RequestError(Exception):
    """The agent answered a request with an error."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class ActionRefused(Exception):
    """An action that must not be carried out; the text says why."""


class SettingsError(Exception):
    """Bad input of the operator: what, where, and what to do."""
