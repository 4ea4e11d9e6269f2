"""Tests of how a start reads the readiness of the web server."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from handoffaudit.cli import up
from tests.running.conftest import free_port

Serve = Callable[[int, Any], int]


@pytest.fixture(autouse=True)
def _allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDOFFAUDIT_ALLOWED_HOSTS", "localhost")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Yield a function that starts a server with one fixed answer and returns the server's port."""
    running: list[HTTPServer] = []

    def serve(status: int, answer: Any) -> int:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def log_message(self, *_: Any) -> None: ...

        server = HTTPServer(("127.0.0.1", 0), Handler)
        running.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    yield serve
    for server in running:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (200, {"checks": {"queue": "ok"}}, None),
        (503, {"checks": {"database": "ok", "queue": "can't be reached"}}, "queue can't be reached"),
        (500, "a page", ""),
        (502, {}, ""),
    ],
)
def test_what_is_missing_is_said(serve: Serve, status: int, answer: Any, said: str | None) -> None:
    assert up.describe_failed_checks("127.0.0.1", serve(status, answer)) == said


def test_a_degraded_server_is_ready_and_what_it_lacks_is_said(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    answer = {"status": "degraded", "checks": {"database": "ok", "queue": "can't be reached"}}
    assert up.describe_failed_checks("127.0.0.1", serve(200, answer)) is None
    assert "Ready, but degraded: queue can't be reached." in capsys.readouterr().err


def test_of_a_server_that_is_not_there_yet_nothing_is_known() -> None:
    assert up.describe_failed_checks("127.0.0.1", free_port()) == ""
