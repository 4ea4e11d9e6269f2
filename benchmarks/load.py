"""The load generator: one thread with keep-alive sockets, in a separate process, with little overhead.

The generator shares the machine with the server that it measures, so it parses only the status and the end of an
answer.
"""

import select
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from typing import Any

from benchmarks import documents

HEAD_END = b"\r\n\r\n"
CHUNKS_END = b"0\r\n\r\n"
PATIENCE_SECONDS = 30.0
RECEIVED = 262_144


@dataclass(frozen=True, slots=True)
class Load:
    """The requests to send.

    `batch` is the number of documents in a request (0: one bare document). With `telemetry`, a request is an export of
    OpenTelemetry with this number of traces, and spans are counted. `rate` is requests per second; each is timed from
    the moment at which it was due. Without a rate, a connection sends its next request after an answer.
    """

    port: int
    path: str = "/"
    paths: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    sends: bool = True
    connections: int = 8
    seconds: float = 5.0
    most: int = 1_000_000
    batch: int = 0
    array: bool = False
    replayed: bool = False
    telemetry: int = 0
    rate: float = 0.0


@dataclass(slots=True)
class Outcome:
    """The result of a load.

    `latencies` are milliseconds in the order of the answers; `cpu` is the processor time of the generator in seconds.
    """

    seconds: float = 0.0
    handoffs: int = 0
    statuses: "Counter[int]" = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    cpu: float = 0.0

    @property
    def per_second(self) -> float:
        return self.handoffs / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")

    def only(self, *statuses: int) -> "Outcome":
        """Return the outcome if all answers have one of these statuses, because a fast refusal is not a result.

        Raises `RuntimeError` for any other status.
        """
        other = {status: number for status, number in self.statuses.items() if status not in statuses}
        if other or not self.statuses:
            raise RuntimeError(f"the load was answered with {dict(self.statuses)}, expected only {statuses}")
        return self


@dataclass(slots=True)
class _Connection:
    sock: socket.socket
    out: memoryview = field(default_factory=lambda: memoryview(b""))
    received: bytearray = field(default_factory=bytearray)
    since: float = 0.0
    busy: bool = False

    def fileno(self) -> int:
        return self.sock.fileno()

    def push(self) -> None:
        try:
            self.out = self.out[self.sock.send(self.out) :]
        except BlockingIOError:
            return

    def take(self) -> int:
        """Return the status of the answer if the answer is complete, else 0."""
        part = self.sock.recv(RECEIVED)
        if not part:
            raise ConnectionError("the server closed the connection")
        self.received += part
        end = self.received.find(HEAD_END)
        if end < 0:
            return 0
        head = bytes(self.received[:end]).lower()
        at = head.find(b"content-length:")
        if at >= 0:
            length = int(head[at + 15 :].split(b"\r\n", 1)[0])
            complete = len(self.received) >= end + 4 + length
        else:
            complete = self.received.endswith(CHUNKS_END)
        if not complete:
            return 0
        self.received.clear()
        self.busy = False
        return int(head[9:12])


def _requests(load: Load) -> Iterator[tuple[bytes, int]]:
    """Yield complete requests, each with the number of handoffs that it carries."""
    named = "".join(f"{name}: {value}\r\n" for name, value in load.headers)
    if not load.sends:
        for path in cycle(load.paths or (load.path,)):
            yield f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{named}\r\n".encode(), 1
    if load.telemetry:
        yield from _exports(load, named)
    kind = "application/x-ndjson" if load.batch and not load.array else "application/json"
    head = f"POST {load.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{named}Content-Length: ".encode()
    source = documents.replayed() if load.replayed else documents.bare()
    while True:
        if not load.batch:
            body = next(source)
        elif load.array:
            body = b"[" + b",".join(islice(source, load.batch)) + b"]"
        else:
            body = b"\n".join(islice(source, load.batch))
        yield head + str(len(body)).encode() + HEAD_END + body, load.batch or 1


def _exports(load: Load, named: str) -> Iterator[tuple[bytes, int]]:
    head = f"POST {load.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n{named}"
    for body in documents.exports(load.telemetry):
        length = f"Content-Length: {len(body)}".encode()
        yield head.encode() + length + HEAD_END + body, load.telemetry * documents.SPANS_OF_TRACE


class _Runner:
    def __init__(self, load: Load, gate: "Synchronized[int] | None") -> None:
        self.load = load
        self.gate = gate
        self.outcome = Outcome()
        self.requests = _requests(load)
        self.carried: dict[int, int] = {}
        self.sent = 0
        self.connections = [self._connect() for _ in range(load.connections)]

    def _connect(self) -> _Connection:
        sock = socket.create_connection(("127.0.0.1", self.load.port), timeout=10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        return _Connection(sock)

    def run(self) -> Outcome:
        cpu = time.process_time()
        started = time.perf_counter()
        stop = started + self.load.seconds
        while True:
            now = time.perf_counter()
            if now < stop:
                self._send(started, now)
            busy = [one for one in self.connections if one.busy]
            if not busy and (now >= stop or self.sent >= self.load.most):
                break
            if now > stop + PATIENCE_SECONDS:
                raise TimeoutError(f"{len(busy)} requests were not answered in {PATIENCE_SECONDS:g} s")
            self._exchange(busy, self._pause(started, now, stop))
        self.outcome.seconds = time.perf_counter() - started
        self.outcome.cpu = time.process_time() - cpu
        for connection in self.connections:
            connection.sock.close()
        return self.outcome

    def _due(self, started: float) -> float:
        return started + self.sent / self.load.rate if self.load.rate else 0.0

    def _send(self, started: float, now: float) -> None:
        if self.gate is not None and not self.gate.value:
            return
        for connection in self.connections:
            if connection.busy:
                continue
            due = self._due(started)
            if due > now or self.sent >= self.load.most:
                return
            request, carried = next(self.requests)
            connection.since = due or time.perf_counter()
            connection.out, connection.busy = memoryview(request), True
            self.carried[id(connection)] = carried
            self.sent += 1
            connection.push()

    def _pause(self, started: float, now: float, stop: float) -> float:
        if self.gate is not None and not self.gate.value:
            return 0.005
        if not self.load.rate or all(one.busy for one in self.connections):
            return 1.0
        return max(0.0, min(self._due(started), max(stop, now + 0.01)) - now)

    def _exchange(self, busy: list[_Connection], pause: float) -> None:
        readable, writable, _ = select.select(busy, [one for one in busy if one.out], [], pause)
        for connection in writable:
            connection.push()
        for connection in readable:
            if status := connection.take():
                self.outcome.latencies.append((time.perf_counter() - connection.since) * 1000)
                self.outcome.statuses[status] += 1
                self.outcome.handoffs += self.carried[id(connection)]
                if status >= 500:
                    raise RuntimeError(f"the server answered {status}")


class Running:
    """A load that runs in its own process; nothing is sent while `gate` is 0."""

    def __init__(self, load: Load) -> None:
        context = get_context("spawn")
        self.gate = context.Value("i", 1)
        self._receiver, sender = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(load, self.gate, sender), daemon=True)
        self._process.start()
        sender.close()

    def done(self) -> bool:
        return self._receiver.poll() or not self._process.is_alive()

    def result(self) -> Outcome:
        try:
            found = self._receiver.recv()
        except EOFError:
            raise RuntimeError("the load generator ended without a result") from None
        finally:
            self._process.join(10)
        if isinstance(found, Exception):
            raise found
        outcome: Outcome = found
        return outcome


def _work(load: Load, gate: "Synchronized[int]", sender: Any) -> None:
    try:
        sender.send(_Runner(load, gate).run())
    except (OSError, ValueError, RuntimeError) as error:
        sender.send(error)


def send(load: Load) -> Outcome:
    """Run a load to its end."""
    return Running(load).result()
