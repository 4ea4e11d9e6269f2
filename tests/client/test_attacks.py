"""Tests of the client in a hostile process: full tables, closed files, signals, cancellation, and foreign spools."""

import asyncio
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from handoffaudit_client import AsyncClient, Client
from handoffaudit_client.notices import Notices
from handoffaudit_client.sender import Sender
from handoffaudit_client.spool import Spool
from handoffaudit_client.testing import FakeServer
from handoffaudit_client.transport import Server

from tests.client.conftest import NOWHERE


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    tmp_path.chmod(0o700)
    return Spool(tmp_path)


def test_an_answer_after_the_end_writes_to_no_file_of_the_program(spool: Spool, tmp_path: Path) -> None:
    for number in range(3):
        spool.append(b"H%d" % number)
    batch = spool.next_batch(2, 1000)
    assert batch is not None
    spool.close()
    # The numbers of the files are free, and the program gets them.
    others = [os.open(tmp_path / f"other-{number}", os.O_RDWR | os.O_CREAT) for number in range(6)]
    spool.finish(batch)
    sizes = [os.fstat(other).st_size for other in others]
    for other in others:
        os.close(other)
    assert sizes == [0] * 6


def test_a_file_that_cannot_be_read_now_is_kept(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.append(b"H1")

    def fail(*_: object) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", fail)
        with pytest.raises(OSError, match="Too many"):
            spool.next_batch(5, 1000)
    assert (spool.waiting(), spool.dropped) == (1, 0)
    spool.close()


def test_without_a_thread_everything_waits_in_the_spool(
    create: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("can't start new thread")

    client = create(NOWHERE)
    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", fail)
        client.send("a", "b", 1)
        assert client.gate("a", "b", 2, timeout=0.2).state == "unverified"
    assert (client.stats()["waiting"], client.stats()["failed"]) == (2, 0)


def test_lines_of_something_else_block_nothing(create: Callable[..., Client], server: FakeServer) -> None:
    client = create()
    for line in (b"\x00\xff", b"R", b"Rtrace", b"R" + b"x" * 100_000 + b"\t{}", b"X\t{}"):
        client._spools[0].append(line)
    client.send("a", "b", 1)
    assert client.flush(60)
    assert (client.stats()["sent"], client.stats()["refused"]) == (1, 5)


def test_a_handler_of_a_signal_may_send(create: Callable[..., Client], monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler runs in the thread that writes at this moment, and holds the lock of the spool."""
    client = create(NOWHERE)
    before = signal.signal(signal.SIGUSR1, lambda *_: client.send("a", "b", "handler"))

    def write(descriptor: int, line: bytes, _: int) -> None:
        os.write(descriptor, line)
        if b"handler" not in line:
            os.kill(os.getpid(), signal.SIGUSR1)

    monkeypatch.setattr("handoffaudit_client.spool.write_line", write)
    try:
        for number in range(3):
            client.send("a", "b", number)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (client.stats()["waiting"], client.stats()["failed"]) == (6, 0)


class Interruption:
    """A trace function that calls `nudge` once, after `left` lines, as the handler of a signal could."""

    def __init__(self, sender: Sender, left: int) -> None:
        self.sender, self.left = sender, left

    def __call__(self, _: FrameType, event: str, __: object) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == -1:
                self.sender.nudge()
        return self


def test_a_handler_of_a_signal_may_interrupt_a_wake_up(spool: Spool) -> None:
    """`nudge` is interrupted by another `nudge` at its first line, then at its second line, and so on."""
    server = Server(NOWHERE, "ha_test")
    line, is_done, starts = 0, False, 0

    class Idle(Sender):
        def _run(self) -> None:
            nonlocal starts
            starts += 1

    def run() -> None:
        nonlocal line, is_done
        while not is_done:
            sender = Idle(server, [spool], Notices(), timeout=1)
            sys.settrace(trace := Interruption(sender, line))
            sender.nudge()
            sys.settrace(None)
            line, is_done = line + 1, trace.left >= 0
            sender.close(5)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    server.close()
    assert is_done, f"the interruption of line {line} hangs"
    assert starts == line > 10


def test_a_cancelled_wait_leaves_no_thread_behind(server: FakeServer, tmp_path: Path) -> None:
    server.answer("held")

    async def cancel() -> None:
        async with AsyncClient(server.url, server.key, spool=tmp_path / "spool") as audit:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(audit.gate("a", "b", 1, wait=60), 0.3)

    began = time.monotonic()
    asyncio.run(cancel())
    assert time.monotonic() - began < 4


def test_a_trace_may_end_in_another_context(client: Client) -> None:
    scope = client.trace("t")
    contextvars.copy_context().run(scope.__enter__)
    scope.__exit__()


def test_a_closed_standard_error_stops_no_gate(
    create: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "closed").open("w") as closed:
        pass
    client = create(debug=True)
    monkeypatch.setattr(sys, "stderr", closed)
    assert client.gate("a", "b", 1)
