"""Bodies that come slowly, and bodies that come whole."""

import io
import threading

import pytest

from handoffaudit import bodies


def environ(body: bytes, source: io.IOBase | None = None) -> dict:
    return {"CONTENT_LENGTH": str(len(body)), "wsgi.input": source or io.BytesIO(body)}


class Slow(io.BytesIO):
    """Says nothing until it may."""

    def __init__(self, goes_on: threading.Event) -> None:
        super().__init__(b"late")
        self.goes_on = goes_on

    def read(self, size: int | None = -1) -> bytes:
        assert self.goes_on.wait(60)
        return super().read(size)


def test_a_body_is_whole_before_the_view_begins() -> None:
    request = environ(b"all of it")
    assert bodies.read_ahead(request)
    assert request["wsgi.input"].read() == b"all of it"


@pytest.mark.parametrize("length", ["", "0", "x", str(bodies.READ_AHEAD_BYTES + 1)])
def test_nothing_else_is_read(length: str) -> None:
    source = io.BytesIO(b"left")
    assert bodies.read_ahead({"CONTENT_LENGTH": length, "wsgi.input": source})
    assert source.read() == b"left"


def test_slow_bodies_hold_so_many_threads_and_no_more() -> None:
    goes_on = threading.Event()
    slow = [
        threading.Thread(target=bodies.read_ahead, args=[environ(b"late", Slow(goes_on))])
        for _ in range(bodies.MOST_READING)
    ]
    for thread in slow:
        thread.start()
    refused = not bodies.read_ahead(environ(b"one more"))
    goes_on.set()
    for thread in slow:
        thread.join()
    assert refused
    assert bodies.read_ahead(environ(b"one more"))
