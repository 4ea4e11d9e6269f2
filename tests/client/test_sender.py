"""Tests of the sender: batches, pauses, refusals and long outages."""

import errno
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from handoffaudit_client import Client
from handoffaudit_client.notices import Notices
from handoffaudit_client.sender import MOST_LINES, Sender
from handoffaudit_client.spool import Spool
from handoffaudit_client.testing import FakeServer
from handoffaudit_client.transport import Answer, Server, Unreachable

from tests.client.conftest import NOWHERE

LINE = b'H{"document":{"source_agent_id":"a","target_agent_id":"b","handoff_type":"handoff","data":1}}'

RESULT = b'Rtrace\t{"tool":"find","result":1}'


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", 200_000)


@pytest.fixture
def sender_of(spool: Spool, clock: Clock) -> Iterator[Callable[[str], Sender]]:
    """Yield a function that creates a sender without a thread for an address."""
    servers: list[Server] = []

    def create_one(url: str) -> Sender:
        servers.append(Server(url, "ha_test"))
        return Sender(servers[-1], [spool], Notices(clock=clock), timeout=5, clock=clock)

    yield create_one
    for server in servers:
        server.close()


def test_many_handoffs_go_in_few_requests(create: Callable[..., Client], server: FakeServer) -> None:
    client = create()
    for number in range(3 * MOST_LINES):
        client.send("a", "b", number)
    found = server.wait_for(3 * MOST_LINES)
    assert [one["document"]["data"]["value"] for one in found] == list(range(3 * MOST_LINES))
    assert client.flush(60)
    assert len(server.requests) < 100
    assert client.stats() == {"sent": 750, "waiting": 0, "dropped": 0, "refused": 0, "failed": 0, "adopted": 0}


def test_an_hour_without_a_server(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that hands over 20 times a second: the disk is bounded, the tries are few, and one warning comes."""
    sender = sender_of(NOWHERE)
    started, tries, largest = clock.now, 0, 0
    while clock.now - started < 3600:
        pause = sender.step()
        tries += 1
        clock.now += max(pause, 0.5)
        for _ in range(int(max(pause, 0.5) * 20)):
            spool.append(LINE)
        largest = max(largest, sum(one.stat().st_size for one in spool.folder.iterdir()))
    assert largest < 210_000
    assert spool.dropped > 60_000
    assert tries < 200
    assert [one.levelno for one in caplog.records] == [logging.WARNING]


def test_pauses_grow_and_differ(sender_of: Callable[[str], Sender], spool: Spool, clock: Clock) -> None:
    sender = sender_of(NOWHERE)
    spool.append(LINE)
    pauses = []
    for _ in range(15):
        pauses.append(sender.step())
        clock.now += pauses[-1]
    for number, pause in enumerate(pauses):
        full = min(0.5 * 2**number, 60)
        assert full / 2 <= pause <= full
    assert len(set(pauses)) == 15


def test_the_pause_is_kept(sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer) -> None:
    server.fail(status=429, retry_after=7)
    spool.append(LINE)
    sender = sender_of(server.url)
    assert sender.step() == 7
    clock.now += 3
    assert sender.step() == 4
    assert len(server.requests) == 1
    # Who asks to flush cannot ignore what the server has asked for.
    assert not sender.flush(0.1)
    assert len(server.requests) == 1
    sender.close(1)
    clock.now += 5
    sender.step()
    assert len(server.handoffs) == 1


def test_a_flush_does_not_wait_for_the_end_of_an_own_pause(create: Callable[..., Client], server: FakeServer) -> None:
    client = create()
    server.stop()
    for _ in range(4):
        client.send("a", "b", 1)
        assert not client.flush(0.1)
    server.start()
    assert client._sender is not None
    client._sender._not_before += 100
    assert client.flush(60)
    assert len(server.handoffs) == 4


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("7", 7.0),
        ("100000", 600.0),
        ("", 0.0),
        ("soon", 0.0),
        ("-3", 0.0),
        ("²", 0.0),
        ("9" * 500, 600.0),
        ("Mon, 01 Jan 0001 00:00:00 -0000", 0.0),
        ("Sat, 01 Jan 2000 00:00:00 GMT", 0.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 600.0),
    ],
)
def test_retry_after(given: str, seconds: float) -> None:
    assert Answer(503, {"retry-after": given}, b"").retry_after == seconds


@pytest.mark.parametrize("status", [401, 403, 404, 405, 408, 425, 429, 500, 502, 503, 504, 301, 307])
def test_what_may_succeed_later_is_kept(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer, status: int
) -> None:
    server.fail(status=status)
    spool.append(LINE)
    sender = sender_of(server.url)
    assert sender.step() > 0
    assert spool.waiting() == 1
    clock.now += 100
    sender.step()
    assert (spool.waiting(), sender.sent, sender.refused) == (0, 1, 0)


@pytest.mark.parametrize("status", [404, 405, 410])
def test_tool_results_that_a_proxy_does_not_pass_on_are_kept(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer, status: int
) -> None:
    handle = server.handle
    server.handle = lambda *_: (status, {"error": "no route"})  # type: ignore[method-assign]
    spool.append(RESULT)
    sender = sender_of(server.url)
    sender.step()
    assert (spool.waiting(), sender.refused) == (1, 0)
    server.handle = handle  # type: ignore[method-assign]
    # The server itself refuses the trace with a problem document.
    server.fail(status=status)
    clock.now += 100
    sender.step()
    assert (spool.waiting(), sender.refused) == (0, 1)


def test_the_answer_of_something_else_is_no_receipt(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer
) -> None:
    """A portal that asks for a password answers 200 with a page."""
    server.handle = lambda *_: (200, {"page": "sign in"})  # type: ignore[method-assign]
    spool.append(LINE)
    assert sender_of(server.url).step() > 0
    assert spool.waiting() == 1


def test_a_batch_that_is_too_large_for_a_proxy_is_halved(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer
) -> None:
    handle = server.handle
    sizes: list[int] = []

    def refuse(handler: object, body: bytes) -> tuple[int, dict[str, object]]:
        sizes.append(body.count(b"\n") + 1)
        return (413, {}) if len(body) > 500 else handle(handler, body)  # type: ignore[arg-type]

    server.handle = refuse  # type: ignore[method-assign]
    for number in range(16):
        spool.append(LINE.replace(b"1}", b"%d}" % number))
    spool.append(LINE.replace(b"1}", b'"%s"}' % (b"x" * 500)))
    sender = sender_of(server.url)
    while spool.waiting():
        clock.now += sender.step()
    assert (sender.sent, sender.refused) == (16, 1)
    assert sizes[0] == 17


def test_what_the_server_refuses_is_counted_and_told_once(
    create: Callable[..., Client],
    server: FakeServer,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    client = create(debug=True)
    client.send("a", "b", 1, handoff_id="h-1")
    assert client.flush(60)
    for number in range(2, 22):
        client.send("a", "b", number, handoff_id="h-1")
    assert client.flush(60)
    assert client.stats()["refused"] == 20
    assert client.stats()["waiting"] == 0
    assert len(caplog.records) == 1
    assert "409: Conflict It has other content." in caplog.text
    lines = capsys.readouterr().err.splitlines()
    assert re.search(r"^handoffaudit: 1 handoffs, [\d,]+ bytes → 200 in \d+ ms$", lines[0])
    assert sum("refused: handoff h-1 → 409" in line for line in lines) == 20


def test_a_second_outage_is_told_after_a_while(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    notices = Notices(clock=clock)
    for seconds in (0, 30, 30, 700):
        clock.now += seconds
        for _ in range(5):
            notices.warn("away", "The server is away")
        notices.end("away")
    assert len(caplog.records) == 2


def test_an_outage_soon_after_the_first_is_told_once_the_pause_is_over(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    notices = Notices(clock=clock)
    notices.warn("away", "The server is away")
    notices.end("away")
    for expected in (1, 1, 2, 2):
        clock.now += 250
        notices.warn("away", "The server is away")
        assert len(caplog.records) == expected


def test_a_bug_of_ours_does_not_end_the_thread(
    create: Callable[..., Client], server: FakeServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = create()
    assert client._sender is not None
    deliver = client._sender._deliver
    calls: list[int] = []

    def fail_once(lines: list[bytes]) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ZeroDivisionError
        deliver(lines)

    monkeypatch.setattr(client._sender, "_deliver", fail_once)
    monkeypatch.setattr("handoffaudit_client.sender._LONGEST_PAUSE", 0.01)
    client.send("a", "b", 1)
    server.wait_for(1)
    assert "ZeroDivisionError" in caplog.text


def test_a_closed_idle_connection_is_opened_again(create: Callable[..., Client], server: FakeServer) -> None:
    client = create()
    assert client.gate("a", "b", 1)
    server.stop()
    server.start()
    assert client.gate("a", "b", 2).state == "accepted"


def test_the_first_gate_after_an_outage_sends_the_tool_results_before_it(
    create: Callable[..., Client], server: FakeServer
) -> None:
    """The verdict depends on the results, and the pauses of a long outage last up to a minute."""
    client = create()
    server.stop()
    client.send("a", "b", {}, trace="t")
    assert client.gate("a", "b", {}, trace="t", timeout=0.1).state == "unverified"
    server.start()
    assert client._sender is not None
    assert client._sender.is_away
    client._sender._not_before += 100
    client.tool_result("get", 17, trace="t")
    assert client.gate("a", "b", {"number": 17}, trace="t").state == "accepted"
    assert [one["result"] for one in server.tool_results["t"]] == [17]


def test_a_flush_waits_for_what_was_there_when_it_began(
    create: Callable[..., Client], server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads never stop sending."""
    client = create()
    handle = server.handle
    client.send("a", "b", 0)

    def send_more(handler: object, body: bytes) -> tuple[int, dict[str, object]]:
        client.send("a", "b", 1)
        return handle(handler, body)  # type: ignore[arg-type]

    monkeypatch.setattr(server, "handle", send_more)
    assert client.flush(60)
    monkeypatch.undo()
    assert client.flush(60)


def test_what_is_sent_after_the_end_waits_for_the_next_process(
    create: Callable[..., Client], server: FakeServer
) -> None:
    client = create()
    client.send("a", "b", 1)
    client.close()
    client.close()
    client.send("a", "b", 2)
    assert not client.flush(5)
    assert client.stats()["waiting"] == 1
    client._spools[0].close()
    later = create()
    later.send("a", "b", 3)
    server.wait_for(3)


def test_a_proxy_of_the_environment_is_used_for_https(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def serve() -> None:
        connection, _ = proxy.accept()
        with connection:
            asked.append(connection.recv(1000).split(b"\r\n")[0])
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as proxy:
        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with pytest.raises(Unreachable, match="403"):
            Server("https://audit.example.com", "ha_test").call("GET", "/handoffs", timeout=5)
        thread.join()
    assert asked[0].startswith(b"CONNECT audit.example.com:443 HTTP/1.")


@pytest.mark.parametrize("address", ["http://proxy:99999", "proxy:secret", "http://[::1", "http://pro xy:80"])
def test_a_malformed_proxy_is_an_outage(
    create: Callable[..., Client], monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("https_proxy", address)
    verdict = create(url="https://audit.example.com").gate("a", "b", 1)
    assert verdict
    assert verdict.state == "unverified"
    assert "the proxy in https_proxy is not an address" in verdict.why
    assert "secret" not in verdict.why


def test_a_line_that_breaks_the_server_keeps_no_other_back(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    handle = server.handle

    def break_at(handler: object, body: bytes) -> tuple[int, dict[str, object]]:
        return (500, {}) if b"poison" in body else handle(handler, body)  # type: ignore[arg-type]

    server.handle = break_at  # type: ignore[method-assign]
    for number in range(600):
        spool.append(LINE.replace(b"1}", b'"poison"}' if number == 333 else b"%d}" % number))
    sender = sender_of(server.url)
    started = clock.now
    while sender.sent < 599 and clock.now - started < 900:
        clock.now += sender.step()
    assert sender.sent == 599
    # The line is given up only while others arrive.
    for _ in range(50):
        clock.now += max(sender.step(), 0.1)
    assert (sender.refused, spool.waiting()) == (0, 1)
    while not sender.refused and clock.now - started < 7200:
        spool.append(LINE)
        clock.now += max(sender.step(), 0.1)
    assert sender.refused == 1
    assert spool.dropped == 0
    assert "the server breaks at" in caplog.text


def test_a_line_stays_in_place_while_the_disk_is_full(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append(_: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    spool.append(LINE)
    sender = sender_of(server.url)
    server.fail(10, status=500)
    monkeypatch.setattr(spool, "append", append)
    for _ in range(10):
        clock.now += sender.step()
    assert (spool.waiting(), sender.sent) == (1, 0)
    sender.step()
    assert (spool.waiting(), sender.sent) == (0, 1)


def test_a_batch_that_is_sent_again_is_counted_once(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer
) -> None:
    handle, failures = server.handle, [503] * 3

    def fail_handoffs(handler: object, body: bytes) -> tuple[int, dict[str, object]]:
        return (failures.pop(), {}) if failures and b"document" in body else handle(handler, body)  # type: ignore[arg-type]

    server.handle = fail_handoffs  # type: ignore[method-assign]
    for line in (b'Rtrace\t{"call_id":"c1","tool":"find","result":1}', b"not a line of this client", LINE):
        spool.append(line)
    sender = sender_of(server.url)
    for _ in range(4):
        clock.now += sender.step()
    assert failures == []
    assert (spool.waiting(), sender.sent, sender.refused) == (0, 2, 1)


def test_a_server_that_breaks_at_everything_loses_nothing(
    sender_of: Callable[[str], Sender], spool: Spool, clock: Clock, server: FakeServer
) -> None:
    for number in range(20):
        spool.append(LINE.replace(b"1}", b"%d}" % number))
    sender = sender_of(server.url)
    server.fail(200, status=500)
    for _ in range(200):
        clock.now += max(sender.step(), 0.1)
    assert (spool.waiting(), sender.refused) == (20, 0)
    for _ in range(50):
        clock.now += max(sender.step(), 0.1)
    assert (spool.waiting(), sender.sent) == (0, 20)
