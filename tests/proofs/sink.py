"""A receiver over HTTP that is down, slow, broken or late as it is told, and keeps a log."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

#: down     nobody listens on the port
#: slow     answers 200 after a while, within the client's time-out
#: failing  500
#: cut      takes it, and closes in the middle of its answer
#: late     takes it, and answers 200 after the client gave up
#: fine     200
Mood = Literal["down", "slow", "failing", "cut", "late", "fine"]


class Sink:
    """`got` counts what was taken by invocation id, `asked` whatever came."""

    def __init__(self) -> None:
        self.got: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.bodies: dict[str, bytes] = {}
        #: Ids whose body was another one than before.
        self.changed: list[str] = []
        self.mood: Mood = "fine"
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self) -> None:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                sink.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                pass  # a client that gave up

        self._server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        invocation_id = json.loads(body)["invocationId"]
        assert request.headers["Idempotency-Key"] == invocation_id
        mood = self.mood
        with self._lock:
            self.asked[invocation_id] += 1
            if self.bodies.setdefault(invocation_id, body) != body:
                self.changed.append(invocation_id)
            if mood != "failing":
                self.got[invocation_id] += 1
        if mood == "slow":
            time.sleep(0.05)
        if mood == "late":
            time.sleep(0.6)
        request.send_response(500 if mood == "failing" else 200)
        request.send_header("Content-Length", "2")
        if mood == "cut":
            request.wfile.write(b"HTTP/1.1 200")  # and not a word more
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        request.end_headers()
        request.wfile.write(b"ok")
