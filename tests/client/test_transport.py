"""Tests of the transport: closed clients, slow answers, and keys that may not name an agent."""

import gc
import http.client
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handoffaudit_client import Client
from handoffaudit_client.testing import FakeServer
from handoffaudit_client.transport import Server, Unreachable

ANOTHER = {
    "type": "/help/problems/another-agent/",
    "title": "Another agent",
    "status": 403,
    "detail": "The document names the agent 'a', but the key may speak only for b.",
}


def test_a_connection_that_is_in_use_at_the_end_is_closed_after_it(server: FakeServer) -> None:
    """An open one would be a warning of the interpreter, which is an error in this test."""
    handle, began, may_end = server.handle, threading.Event(), threading.Event()

    def answer_late(handler: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        began.set()
        assert may_end.wait(60)
        return handle(handler, body)

    server.handle = answer_late  # type: ignore[method-assign]
    used = Server(server.url, server.key)
    thread = threading.Thread(target=used.call, args=("GET", "/handoffs/h-1"), kwargs={"timeout": 10})
    thread.start()
    assert began.wait(60)
    used.close()
    may_end.set()
    thread.join()
    assert used._idle == []
    del used, thread
    gc.collect()


def test_an_answer_that_drips_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                for _ in range(200):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        return
                    time.sleep(0.02)

        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        with pytest.raises(Unreachable, match="no answer within"):
            Server(f"http://127.0.0.1:{listening.getsockname()[1]}", "ha_test").call("GET", "/x", timeout=0.2)
        assert time.monotonic() - began < 2
        thread.join()


def test_a_slow_connection_is_told_with_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_: http.client.HTTPConnection) -> None:
        raise TimeoutError

    monkeypatch.setattr(http.client.HTTPConnection, "connect", connect)
    with pytest.raises(Unreachable, match="no answer within 5 s"):
        Server("http://127.0.0.1:9", "ha_test").call("GET", "/x", timeout=30)


def test_what_a_bound_key_may_not_name_is_refused_and_blocks_nothing(
    create: Callable[..., Client], server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    """A tool result of another agent would otherwise keep all handoffs in the spool."""
    handle = server.handle

    def refuse_a(handler: Any, body: bytes) -> tuple[int, dict[str, Any]]:
        return (403, ANOTHER) if b'"agent":"a"' in body or b'_id":"a"' in body else handle(handler, body)

    server.handle = refuse_a  # type: ignore[method-assign]
    client = create()
    for agent in ("a", "b", "b"):
        client.tool_result("search", "found", agent=agent, trace="t")
    client.send("b", "c", 1, trace="t")
    assert client.flush(60)
    assert (len(server.tool_results["t"]), len(server.handoffs)) == (2, 1)
    assert {name: client.stats()[name] for name in ("sent", "refused", "waiting")} == {
        "sent": 3,
        "refused": 1,
        "waiting": 0,
    }
    verdict = client.gate("a", "c", 1)
    assert not verdict
    assert verdict.state == "refused"
    assert "may speak only for b" in verdict.why


def test_a_secure_connection_that_the_server_closed_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS, a request on such a connection fails with another error than without: it is no `ConnectionError`."""
    certificate = tmp_path / "localhost.pem"
    make = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=test")
    places = ("-keyout", str(certificate), "-out", "-", "-addext", "subjectAltName=DNS:localhost")
    made = subprocess.run(["openssl", *make, *places], check=True, capture_output=True)
    with certificate.open("ab") as file:
        file.write(made.stdout)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    has_closed = threading.Event()

    def answer_twice() -> None:
        for _ in range(2):
            with context.wrap_socket(listening.accept()[0], server_side=True) as connection:
                read = b""
                while not read.endswith(b"[]"):
                    read += connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            has_closed.set()

    with socket.create_server(("localhost", 0)) as listening:
        thread = threading.Thread(target=answer_twice, daemon=True)
        thread.start()
        server = Server(f"https://localhost:{listening.getsockname()[1]}", "key")
        assert server.call("POST", "/handoffs", b"[]", timeout=10).status == 200
        assert has_closed.wait(10)
        assert server.call("POST", "/handoffs", b"[]", timeout=10).status == 200
        thread.join()
        server.close()
