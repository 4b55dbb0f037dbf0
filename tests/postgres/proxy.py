"""A proxy before a Postgres server that loses requests and replies, or says nothing any more.

It speaks just enough of the protocol to know where a request ends, which prepared statements it
executes, and when its reply is complete.
"""

from __future__ import annotations

import re
import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from psycopg.conninfo import conninfo_to_dict

#: request  the server never gets it
#: reply    the server has carried it out, and the client never learns
#: contact  the server gets it, and the client is cut off at once, done or not
Lost = Literal["request", "reply", "contact"]

#: What a statement is called beside what tells its forms and versions apart.
_NAME = re.compile(r"(?:runjournal_)?(.*?)(?:_many)?(?:_\d+)?")
#: Messages that are only part of a request; any other one ends it.
_PARTS = b"BPDECd"


class Request(NamedTuple):
    """What one round trip asks for: the names of the statements it executes, as we call them."""

    data: bytes
    statements: tuple[str, ...]


class _Loss(NamedTuple):
    what: Lost
    of: str | None
    after: int


class Proxy:
    """Listens on a Unix socket of its own; `url` is its address."""

    def __init__(self, url: str) -> None:
        info: dict[str, Any] = conninfo_to_dict(url)
        self._host, self._port = str(info.get("host", "/tmp")), int(info.get("port", 5432))
        self._folder = Path(tempfile.mkdtemp(prefix="proxy"))
        login = f"{info.get('user', '')}:{info.get('password', '')}"
        self.url = f"postgresql://{login}@/{info['dbname']}?host={self._folder}"
        self._losses: list[_Loss] = []
        self._hooks: dict[str, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self._links: set[socket.socket] = set()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._folder / ".s.PGSQL.5432"))
        self._listening.listen(64)
        #: The statements of each round trip so far.
        self.trips: list[tuple[str, ...]] = []
        #: How many requests or replies were really lost.
        self.lost = 0
        #: Whether new connections are refused.
        self.down = False
        self._silent = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def lose(self, what: Lost, of: str | None = None, *, after: int = 0, times: int = 1) -> None:
        """Lose the next `times` requests that execute `of` (or any), the first `after` excepted."""
        with self._lock:
            self._losses += [_Loss(what, of, after)] + [_Loss(what, of, 0)] * (times - 1)

    def lose_nothing(self) -> None:
        """Forget what was still to be lost."""
        with self._lock:
            self._losses.clear()

    def before(self, statement: str, act: Callable[[], None]) -> None:
        """Call `act` once, before the next request that executes the statement is passed on."""
        self._hooks[statement] = act

    def cut(self) -> None:
        """Cut all connections there are."""
        for link in list(self._links):
            _shut(link)

    def fall_silent(self) -> None:
        """Pass nothing on any more on the connections that listen now, and leave them open."""
        self._silent.set()
        self._silent = threading.Event()

    def close(self) -> None:
        self.down = True
        _shut(self._listening)
        self._listening.close()
        self.cut()
        shutil.rmtree(self._folder)

    # Inside.

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.down:
                client.close()
            else:
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        except OSError:
            server.close()
            raise
        return server

    def _serve(self, client: socket.socket) -> None:
        silent = self._silent
        with client:
            try:
                server = self._connect()
            except OSError:
                return  # the server is down, and so it looks to the client
            self._links |= {client, server}
            try:
                with server:
                    self._pass_on(client, server, silent)
            except OSError:
                pass
            finally:
                self._links -= {client, server}

    def _pass_on(
        self, client: socket.socket, server: socket.socket, silent: threading.Event
    ) -> None:
        incoming = _Requests()
        listens = False
        while True:
            ready, _, _ = select.select([client, server], [], [])
            data = {link: link.recv(65536) for link in ready}
            if not all(data.values()):
                return
            listens = listens or b"LISTEN " in data.get(client, b"")
            if listens and silent.is_set():
                continue
            if server in data:
                client.sendall(data[server])
            for request in incoming.feed(data.get(client, b"")):
                if not self._carry_out(request, server):
                    return

    def _carry_out(self, request: Request, server: socket.socket) -> bool:
        """Pass a request on, unless it or its reply is to be lost; whether the link goes on."""
        for statement in request.statements:
            act = self._hooks.pop(statement, None)
            if act is not None:
                act()
        with self._lock:
            if request.statements:
                self.trips.append(request.statements)
            what = self._chosen(request)
        if what is None:
            server.sendall(request.data)
            return True
        if what != "request":
            server.sendall(request.data)
        if what == "reply":
            _read_whole_reply(server)
        self.lost += 1
        return False

    def _chosen(self, request: Request) -> Lost | None:
        """What is to be lost of this request; the losses are used up in their order."""
        if not self._losses or not request.statements:
            return None
        what, of, after = self._losses[0]
        if of is not None and of not in request.statements:
            return None
        if after:
            self._losses[0] = _Loss(what, of, after - 1)
            return None
        del self._losses[0]
        return what


class _Requests:
    """Splits what a client sends into requests."""

    def __init__(self) -> None:
        self._rest = b""
        self._started = False
        self._parts = b""
        self._statements: list[str] = []

    def feed(self, data: bytes) -> Iterator[Request]:
        self._rest += data
        while (size := self._size()) and len(self._rest) >= size:
            message, self._rest = self._rest[:size], self._rest[size:]
            self._parts += message
            kind = message[:1] if self._started else b""
            self._started = self._started or message[4:8] == b"\0\3\0\0"
            if kind == b"B":
                _portal, name, _ = message[5:].split(b"\0", 2)
                named = _NAME.fullmatch(name.decode())
                self._statements.append(named[1] if named else "")
            if not kind or kind not in _PARTS:
                yield Request(self._parts, tuple(self._statements))
                self._parts, self._statements = b"", []

    def _size(self) -> int:
        """Bytes of the next message with its head; 0 while that is not known."""
        head = 1 if self._started else 0
        if len(self._rest) < head + 4:
            return 0
        return head + int.from_bytes(self._rest[head : head + 4], "big")


def _read_whole_reply(server: socket.socket) -> None:
    """Until "ready for query"."""
    rest = b""
    while data := server.recv(65536):
        rest += data
        while len(rest) >= 5 and len(rest) >= (size := 1 + int.from_bytes(rest[1:5], "big")):
            if rest[:1] == b"Z":
                return
            rest = rest[size:]


def _shut(link: socket.socket) -> None:
    try:
        link.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
