"""A network before a Postgres server that is slow, is cut, or loses one end unnoticed."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict


class _Link:
    """One connection, from the client to the server; either end may be gone without a word."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = (client, server)
        #: Nothing that one of these ends sends arrives any more.
        self.muted = False

    def close(self) -> None:
        for end in self.ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is closed already


class Network:
    """Listens on a Unix socket of its own and passes on what comes; `url` is its address.

    delay  seconds that each part of a message takes on its way
    down   whether new connections are refused
    """

    def __init__(self, url: str) -> None:
        info: dict[str, Any] = conninfo_to_dict(url)
        self._server = f"{info['host']}/.s.PGSQL.{info.get('port', 5432)}"
        self._folder = Path(tempfile.mkdtemp(prefix="network"))
        login = f"{info.get('user', '')}:{info.get('password', '')}"
        self.url = f"postgresql://{login}@/{info['dbname']}?host={self._folder}"
        self.delay = 0.0
        self.down = False
        self._links: set[_Link] = set()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._folder / ".s.PGSQL.5432"))
        self._listening.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Cut all connections; how many there were."""
        links = list(self._links)
        for link in links:
            link.close()
        return len(links)

    def lose_servers(self) -> int:
        """The servers' ends are gone and the clients are not told; how many there were."""
        return self._lose(1)

    def lose_clients(self) -> int:
        """The clients' ends are gone and the servers are not told; how many there were."""
        return self._lose(0)

    def close(self) -> None:
        self.down = True
        _end(self._listening)
        self._listening.close()
        self.cut()
        shutil.rmtree(self._folder)

    def _lose(self, end: int) -> int:
        links = [link for link in list(self._links) if not link.muted]
        for link in links:
            link.muted = True
            _end(link.ends[end])
        return len(links)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            try:
                if self.down:
                    raise OSError("the network is down")
                server.connect(self._server)
            except OSError:
                client.close()
                server.close()
                continue
            link = _Link(client, server)
            self._links.add(link)
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: _Link) -> None:
        client, server = link.ends
        with client, server:
            back = threading.Thread(target=self._pass_on, args=(link, server, client), daemon=True)
            back.start()
            self._pass_on(link, client, server)
            back.join()
        self._links.discard(link)

    def _pass_on(self, link: _Link, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                if not link.muted:
                    target.sendall(data)
        except OSError:
            pass
        if not link.muted:
            link.close()


def _end(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
