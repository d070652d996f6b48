"""A wire that can be cut, frozen and slowed: TCP between a client and a server of this machine."""

from __future__ import annotations

import contextlib
import socket
import threading
import time


class Proxy:
    """Forwards bytes both ways. `frozen`: nothing moves, nothing ends; `slow_s`: per piece."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.frozen = False
        self.slow_s = 0.0
        self.refusing = False
        self.connections = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Breaks every connection."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._closed = True
        self.frozen = False
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.refusing:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._target))
            self._pairs.append((client, server))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if self.slow_s:
                    time.sleep(self.slow_s)
                while self.frozen:
                    time.sleep(0.02)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
