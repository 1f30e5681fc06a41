"""A TCP proxy on loopback that counts the bytes it forwards."""

from __future__ import annotations

import contextlib
import socket
import threading


class CountingProxy:
    """Forwards 127.0.0.1:``port`` to ``target_port``; ``to_host`` and ``to_console`` count bytes on the wire."""

    def __init__(self, target_port: int) -> None:
        self.to_host = 0
        self.to_console = 0
        self._target_port = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Listen no more; what is connected ends with its ends."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target_port))
                for each in (near, far):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._forward, args=(near, far, "to_host"), daemon=True).start()
                threading.Thread(target=self._forward, args=(far, near, "to_console"), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, counter: str) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                setattr(self, counter, getattr(self, counter) + len(data))
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
