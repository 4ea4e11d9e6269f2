"""A receiver of webhooks: a real HTTP server on this machine with scripted answers."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = orjson.loads(self.body)
        return told


@dataclass
class Receiver:
    """A receiver with scripted answers.

    `answers` holds the status, headers and body of the next answers; the last answer repeats.
    """

    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=lambda: [(204, {}, b"")])
    requests: list[Request] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def says(self, *statuses: int) -> None:
        self.answers = [(status, {}, b"") for status in statuses]

    def next_answer(self) -> tuple[int, dict[str, str], bytes]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def told(self) -> list[dict[str, Any]]:
        return [request.told for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.receiver.requests.append(Request(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        status, headers, answer = self.receiver.next_answer()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def running() -> Iterator[Receiver]:
    receiver = Receiver()
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def raw(behave: Callable[[socket.socket], None]) -> Iterator[str]:
    """Yield the address of a server that handles each connection with `behave`, which need not speak HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        over = threading.Event()

        def serve() -> None:
            listening.settimeout(0.05)
            while not over.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                # The other side may have had enough.
                with connection, suppress(OSError):
                    behave(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        finally:
            over.set()
            thread.join()


def drip(text: bytes, pause: float, seconds: float) -> Callable[[socket.socket], None]:
    """Return a behaviour that sends the text byte by byte, over and over, for the given number of seconds."""

    def behave(connection: socket.socket) -> None:
        connection.recv(65536)
        until = time.monotonic() + seconds
        at = 0
        while time.monotonic() < until:
            connection.sendall(text[at % len(text) : at % len(text) + 1])
            at += 1
            time.sleep(pause)

    return behave
