"""Tests of hundreds of connections that send their bodies byte by byte, while others are served."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.handoffs.support import payload
from tests.resilience.processes import Installation, eventually

log = logging.getLogger(__name__)

CONNECTIONS = 500
SUBMISSIONS = 100
SECOND_KEY = """
from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Tenant
tenant = Tenant.objects.get(slug="acme")
print(keys.create(tenant=tenant, name="slow", scopes=["ingest"], expires_at=None, actor="tests")[1])
"""


@contextmanager
def slow_connections(url: str, path: str, headers: str) -> Iterator[list[socket.socket]]:
    """Open connections that announce a body and send a byte now and then, until the block ends."""
    host, _, port = url.removeprefix("http://").partition(":")
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 10000\r\n\r\n{{".encode()
    opened: list[socket.socket] = []
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(0.5):
            for one in opened:
                with suppress(OSError):
                    one.send(b" ")

    for _ in range(CONNECTIONS):
        one = socket.create_connection((host, int(port)), timeout=30)
        one.sendall(head)
        opened.append(one)
    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        yield opened
    finally:
        stop.set()
        thread.join()
        for one in opened:
            one.close()


def assert_others_go_on(installation: Installation) -> None:
    taken = []
    with installation.client() as client:
        # The first moment is over: the server has answered those that it refuses.
        eventually(lambda: client.post("/handoffs", json=payload()).status_code == 202)
        for _ in range(SUBMISSIONS):
            started = time.monotonic()
            assert client.post("/handoffs", json=payload()).status_code == 202
            assert client.get("/handoffs?limit=1").status_code == 200
            taken.append(time.monotonic() - started)
    taken.sort()
    middle, p99 = taken[len(taken) // 2], taken[int(len(taken) * 0.99)]
    log.info("with %d slow connections: p50 %.0f ms, p99 %.0f ms", CONNECTIONS, middle * 1000, p99 * 1000)
    assert p99 < 5


@pytest.mark.parametrize("installation", ["embedded"], indirect=True)
def test_slow_senders_keep_nobody_else_out(installation: Installation) -> None:
    installation.web()
    slow_key = installation.run(SECOND_KEY)
    submitting = "/api/v1/handoffs"
    for path, headers in (
        (submitting, ""),
        (submitting, f"Authorization: Bearer {slow_key}\r\n"),
        ("/sign-in/", "Content-Type: application/x-www-form-urlencoded\r\n"),
    ):
        with slow_connections(installation.url, path, headers) as opened:
            assert_others_go_on(installation)
            # Whoever has no key is answered without waiting for the body, and the connection ends.
            if not headers:
                opened[-1].settimeout(10)
                assert opened[-1].recv(100).startswith(b"HTTP/1.1 401")
