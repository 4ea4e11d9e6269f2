"""The server: a thread of its own that serves any number of slow requests at the same time.

`running()` gives tests a server; `python -m tests.messages_api` runs a server for development.
"""

import asyncio
import contextlib
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from handoffaudit.validation.prompts.question import Use
from tests.messages_api.requests import Request, complaint
from tests.messages_api.scripted import Scripted, error_body, fails, from_json, message_body, says

__all__ = ["MessagesServer", "running"]

Respond = Callable[[Request], Scripted | None]
_DOCUMENT = re.compile(r"<document>\n(.*)\n</document>", re.DOTALL)
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found"}
_CONTROL = "/_control/"


def default_answer(request: Request) -> Scripted:
    """Answer as an LLM that reports no findings."""
    match request.use:
        case Use.GROUNDING:
            return says({"valid": True, "issues": []})
        case Use.OBJECTIVE:
            return says({"status": "PASSED", "reasoning": "The deliverable meets the objective.", "confidence": 0.9})
        case Use.CRITIQUE:
            return says({"overall_score": 0.9, "issues": [], "reasoning": "Sound."})
        case Use.REPAIR:
            found = _DOCUMENT.search(request.content)
            return says(found[1] if found else "{}")
        case None:
            return says("{}")


class MessagesServer:
    """A Messages API server on loopback.

    `url` is the base URL, and `requests` holds all requests. The server gives scripted answers first and in order, then
    the answer of `respond`, then a default answer for each use. During an `outage`, all requests fail with that status.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Request] = []
        self.respond: Respond | None = None
        self.outage = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self._scripted: deque[Scripted | Respond] = deque()
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="messages-api", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def script(self, *answers: "Scripted | Respond") -> None:
        """Queue the next answers in this order.

        A function gets the request; where the function returns None, `respond` or the default answers.
        """
        self._scripted.extend(answers)

    def reset(self) -> None:
        self.requests.clear()
        self._scripted.clear()
        self.respond = None
        self.outage = 0
        self.most_in_flight = 0

    def start(self) -> "MessagesServer":
        self._thread.start()
        self._started.wait(120)
        return self

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(120)

    def wait(self) -> None:
        """Wait until the server is stopped."""
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self._port, backlog=1024, limit=1 << 24)
        )
        self._port = self._server.sockets[0].getsockname()[1]
        self._started.set()
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._end())
            self._loop.close()

    async def _end(self) -> None:
        if self._server:
            self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read(reader):
                if request.path.startswith(_CONTROL):
                    await _send(writer, 200, json.dumps(self._controlled(request)).encode())
                elif not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer a request, and return whether the connection stays open."""
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            scripted = self._next(request)
            await _passed(scripted)
            return await _sent(writer, scripted, request)
        finally:
            self.in_flight -= 1

    def _next(self, request: Request) -> Scripted:
        if refused := complaint(request):
            return fails(refused[0], message=refused[1])
        if self.outage:
            return fails(self.outage)
        scripted = self._scripted.popleft() if self._scripted else None
        answer = scripted(request) if callable(scripted) else scripted
        if answer is None and self.respond:
            answer = self.respond(request)
        return answer or default_answer(request)

    def _controlled(self, request: Request) -> Any:
        """Run a control command and return its answer.

        `requests` lists the requests, `outage` takes `{"status": 529}` (0 ends the outage), `script` takes a list of
        answers, and `reset` takes nothing.
        """
        match request.path.removeprefix(_CONTROL):
            case "requests":
                return [one.as_json() for one in self.requests]
            case "outage":
                self.outage = int(request.json.get("status", 529))
                return {"status": self.outage}
            case "script":
                self.script(*(from_json(one) for one in json.loads(request.body)))
                return {"scripted": len(self._scripted)}
            case "reset":
                self.reset()
                return {}
            case other:
                return {"error": f"no {other}: one of requests, outage, script, reset"}


@contextlib.contextmanager
def running(port: int = 0) -> Iterator[MessagesServer]:
    """Run a server on loopback, on a free port by default."""
    server = MessagesServer(port).start()
    try:
        yield server
    finally:
        server.stop()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ", 2)
    return Request(method, path, headers, body, head + body)


async def _sent(writer: asyncio.StreamWriter, scripted: Scripted, request: Request) -> bool:
    if scripted.raw is not None:
        body = scripted.raw
    elif scripted.status == 200:
        body = json.dumps(message_body(scripted, request.model, len(request.body))).encode()
    else:
        body = json.dumps(error_body(scripted)).encode()
    if scripted.cut == "before":
        return False
    data = _head(scripted.status, body, scripted.headers, scripted.content_type)
    if scripted.cut:
        end = len(data) // 2 if scripted.cut == "header" else len(data) + len(body) // 2
        writer.write((data + body)[:end])
        await writer.drain()
        return False
    if scripted.drip:
        for byte in data + body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(scripted.drip)
        return True
    writer.write(data + body)
    await writer.drain()
    return True


async def _passed(scripted: Scripted) -> None:
    """Wait for the delay before the answer."""
    if scripted.until is None:
        await asyncio.sleep(scripted.delay)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(scripted.delay):
            while not scripted.until():
                await asyncio.sleep(0.01)


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    writer.write(_head(status, body, {}, "application/json") + body)
    await writer.drain()


def _head(status: int, body: bytes, headers: Mapping[str, str], content_type: str) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}"]
    fields = {"content-type": content_type, "content-length": str(len(body)), "request-id": "req_scripted", **headers}
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
