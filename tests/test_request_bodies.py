"""Tests of request bodies that arrive slowly, arrive whole, or are not read."""

import io
import socket
import threading
import time
from contextlib import ExitStack

import pytest

from handoffaudit import request_bodies
from handoffaudit.request_bodies import Guard, is_too_slow
from tests.api.support import application


class Stuck(io.BytesIO):
    """Say nothing until it may."""

    def __init__(self, goes_on: threading.Event) -> None:
        super().__init__(b"late")
        self.goes_on = goes_on

    def read(self, size: int | None = -1) -> bytes:
        assert self.goes_on.wait(60)
        return super().read(size)


def environ(body: bytes, source: io.IOBase | None = None) -> dict:
    return {"CONTENT_LENGTH": str(len(body)), "wsgi.input": source or io.BytesIO(body)}


def test_a_body_is_whole_before_the_view_begins() -> None:
    request = environ(b"all of it")
    request_bodies.read_ahead(request, "key")
    assert request["wsgi.input"].read() == b"all of it"


def test_a_part_of_a_body_does_not_pass_as_the_whole() -> None:
    request = {"CONTENT_LENGTH": "10", "wsgi.input": io.BytesIO(b"a part")}
    request_bodies.read_ahead(request, "key")
    with pytest.raises(OSError, match="6 of 10 bytes"):
        request["wsgi.input"].read()


@pytest.mark.parametrize("length", ["", "0", "x", str(request_bodies.READ_AHEAD_BYTES + 1)])
def test_nothing_else_is_read(length: str) -> None:
    source = io.BytesIO(b"left")
    request_bodies.read_ahead({"CONTENT_LENGTH": length, "wsgi.input": source}, "key")
    assert source.read() == b"left"


def test_slow_bodies_hold_so_many_threads_of_one_sender_and_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "PATIENCE_SECONDS", 0.02)
    goes_on = threading.Event()
    senders = ["one"] * request_bodies.MOST_OF_ONE + ["two"] * (
        request_bodies.MOST_READING - request_bodies.MOST_OF_ONE
    )
    slow = [
        threading.Thread(target=request_bodies.read_ahead, args=[environ(b"late", Stuck(goes_on)), sender])
        for sender in senders
    ]
    try:
        for at, thread in enumerate(slow):
            if at == request_bodies.MOST_OF_ONE:
                with pytest.raises(request_bodies.TooManyBodiesError):
                    request_bodies.read_ahead(environ(b"more"), "one")
                request_bodies.read_ahead(environ(b"other"), "two")
            thread.start()
            while request_bodies._places._reading.total() <= at:
                pass
        with pytest.raises(request_bodies.TooManyBodiesError):
            request_bodies.read_ahead(environ(b"more"), "three")
    finally:
        goes_on.set()
        for thread in slow:
            thread.join(60)
    request_bodies.read_ahead(environ(b"more"), "one")


@pytest.mark.parametrize(
    ("seconds", "received", "silent", "expected"),
    [
        (9.0, 1, 0.1, False),
        (11.0, 20, 0.1, True),
        (11.0, 50_000, 0.1, False),
        # Sent in full, and waits for a verdict.
        (60.0, 0, 60.0, False),
        (60.0, 600, 59.0, False),
        (200.0, 600, 199.0, True),
        (200.0, 0, 200.0, True),
        # The answer to a request that arrived long ago is a large download, and pauses.
        (11.0, 0, 200.0, False),
        (149.0, 0, 900.0, False),
        (150.0, 0, 900.0, True),
    ],
)
def test_which_connection_is_too_slow(seconds: float, received: int, silent: float, expected: bool) -> None:
    assert is_too_slow(seconds, received, silent) is expected


@pytest.mark.skipif("sys.platform != 'linux'", reason="the kernel tells of connections on Linux")
def test_a_connection_that_sends_byte_by_byte_is_ended_and_others_are_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        slow, waits = (socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(2))
        accepted = [server.accept()[0] for _ in range(2)]
        guard = Guard()
        guard._port = port
        waits.sendall(b"POST / HTTP/1.1 all of it")
        slow.sendall(b"P")
        time.sleep(0.01)
        guard.look(0.0)
        slow.sendall(b"O")
        time.sleep(0.01)
        guard.look(1.0)
        guard.look(20.0)
        assert slow.recv(1) == b""
        waits.settimeout(0.05)
        with pytest.raises(TimeoutError):
            waits.recv(1)
        for one in (slow, waits, *accepted):
            one.close()


@pytest.mark.skipif("sys.platform != 'linux'", reason="the kernel tells of connections on Linux")
def test_a_connection_that_was_idle_before_its_request_is_not_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=10) as idle, server.accept()[0]:
            guard = Guard()
            guard._port = port
            guard.look(0.0)
            guard.look(60.0)
            idle.sendall(b"POST / HTTP/1.1 all of it")
            time.sleep(0.01)
            guard.look(61.0)
            idle.settimeout(0.05)
            with pytest.raises(TimeoutError):
                idle.recv(1)


def test_forms_leave_places_to_those_who_have_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "PATIENCE_SECONDS", 0.02)
    goes_on = threading.Event()
    slow = [
        threading.Thread(
            target=request_bodies.read_ahead, args=[environ(b"late", Stuck(goes_on)), at], kwargs={"is_form": True}
        )
        for at in range(request_bodies.MOST_FOR_FORMS)
    ]
    try:
        for at, thread in enumerate(slow):
            thread.start()
            while request_bodies._places._reading.total() <= at:
                pass
        with pytest.raises(request_bodies.TooManyBodiesError):
            request_bodies.read_ahead(environ(b"more"), "another address", is_form=True)
        request_bodies.read_ahead(environ(b"submission"), "a key")
    finally:
        goes_on.set()
        for thread in slow:
            thread.join(60)


def test_a_body_that_the_view_reads_takes_a_place_meanwhile() -> None:
    large = {"CONTENT_LENGTH": str(request_bodies.READ_AHEAD_BYTES + 1), "wsgi.input": io.BytesIO()}
    with ExitStack() as held:
        for _ in range(request_bodies.MOST_OF_ONE):
            held.enter_context(request_bodies.read_by_view(large, "one"))
        with pytest.raises(request_bodies.TooManyBodiesError), request_bodies.read_by_view(large, "one"):
            pass
        with request_bodies.read_by_view(large, "two"):
            pass
    assert not request_bodies._places._reading


def test_a_body_that_was_not_read_does_not_pass_as_an_empty_one() -> None:
    request = environ(b"all of it")
    request_bodies.drop(request)
    with pytest.raises(OSError, match="0 of 9 bytes"):
        request["wsgi.input"].read()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("header", [None, "Bearer ha_unknown", "Basic YTpi"])
def test_without_a_key_nothing_is_read(header: str | None) -> None:
    answers: list[str] = []

    class Unread(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise AssertionError("the body was read")

    request = environ(b"", Unread()) | {
        "CONTENT_LENGTH": "1000",
        "PATH_INFO": "/api/v1/handoffs",
        "REQUEST_METHOD": "POST",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
    }
    if header:
        request["HTTP_AUTHORIZATION"] = header
    response = application(request, lambda status, headers: answers.append(status))
    assert answers == ["401 Unauthorized"]
    assert b"Key needed" in b"".join(response)


class Endless(io.RawIOBase):
    """A body that never ends."""

    taken = 0

    def read(self, size: int = -1, /) -> bytes:
        self.taken += size
        return bytes(size)


def test_the_rest_of_a_refused_body_is_read_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "MOST_DRAINED", 3 * 1024 * 1024)
    large = {"CONTENT_LENGTH": str(2**40), "wsgi.input": Endless()}
    with request_bodies.read_by_view(large, "one"):
        pass
    assert large["wsgi.input"].taken == 3 * 1024 * 1024
    monkeypatch.setattr(request_bodies, "DRAIN_SECONDS", -1.0)
    with request_bodies.read_by_view(large, "one"):
        pass
    assert large["wsgi.input"].taken == 3 * 1024 * 1024


def test_a_sender_that_asks_whether_to_go_on_sends_no_refused_body() -> None:
    large = {"CONTENT_LENGTH": str(2**40), "HTTP_EXPECT": "100-continue", "wsgi.input": Endless()}
    with request_bodies.read_by_view(large, "one"):
        pass
    assert large["wsgi.input"].taken == 0
