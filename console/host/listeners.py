"""Callbacks that cannot break what calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Listeners(Generic[T]):
    """A set of callbacks for values of one type. One that raises is reported to ``on_error``; the others still run."""

    def __init__(self, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self._callbacks: dict[object, Callable[[T], None]] = {}

    def add(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Call ``callback`` for every later value; return a function that ends it (again, without effect)."""
        key = object()
        self._callbacks[key] = callback

        def remove() -> None:
            self._callbacks.pop(key, None)

        return remove

    def call(self, value: T) -> None:
        """Call every callback with ``value``, in the order in which they were added."""
        for callback in list(self._callbacks.values()):
            try:
                callback(value)
            except Exception as error:  # whatever a listener does wrong, the link goes on
                self._on_error(error)
