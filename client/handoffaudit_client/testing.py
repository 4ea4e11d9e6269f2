"""Fake server for tests of agents: speaks the part of the API that the client uses, with verdicts that tests choose.

`docs/client.md` has an example.
"""

from __future__ import annotations

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from handoffaudit_client.identity import new_id

_OPEN = ("received", "validating", "held")

_WAIT = re.compile(r"wait=(\d+)")

_RESULTS = re.compile(r"/api/v1/traces/(.+)/tool-results\Z")

_USE = re.compile(r"/api/v1/handoffs/([^/]+)/use\Z")

_HANDOFF = re.compile(r"/api/v1/handoffs/([^/]+)\Z")


class _Stop(Exception):
    """An error that ends the handling of a request."""

    def __init__(self, status: int, title: str, **headers: str) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.headers = headers


class FakeServer:
    """A server on a free port of this machine, for as long as its `with` block.

    `handoffs` are the submissions by id, in the order of arrival. `tool_results` are the results by trace. `requests`
    are the method and the path of each request.
    """

    def __init__(self, key: str = "ha_test") -> None:
        self.key = key
        self.handoffs: dict[str, dict[str, Any]] = {}
        self.tool_results: dict[str, list[dict[str, Any]]] = {}
        self.requests: list[tuple[str, str]] = []
        self.url = ""
        self._states: dict[str, dict[str, Any]] = {}
        # The sender's id of each handoff, by the server's id.
        self._ids: dict[str, str] = {}
        self._rules: list[tuple[dict[str, str], dict[str, Any]]] = []
        self._failures: list[_Stop] = []
        self._changed = threading.Condition()
        self._http: ThreadingHTTPServer | None = None

    def __enter__(self) -> FakeServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; after `stop`, at the same address."""
        port = urlsplit(self.url).port or 0
        handler = type("Handler", (_Handler,), {"fake": self})
        self._http = _Http(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        """Refuse connections, and close the open connections."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def answer(
        self,
        state: str,
        *,
        source: str | None = None,
        target: str | None = None,
        type: str | None = None,  # noqa: A002 (the word of the API)
        message: str = "",
        findings: list[dict[str, Any]] | None = None,
    ) -> None:
        """Answer new handoffs with this state: all, or only those with the given source, target and type.

        If several calls match a handoff, the last call counts. If no call matches, the handoff is accepted. `findings`
        are the findings of the verdict. Without `findings`, a `message` becomes the only finding.
        """
        wanted = {"source_agent_id": source, "target_agent_id": target, "handoff_type": type}
        given = findings or ([_finding(message)] if message else [])
        rule = {name: value for name, value in wanted.items() if value is not None}
        self._rules.insert(0, (rule, {"state": state, "issues": given}))

    def decide(self, handoff_id: str, state: str) -> None:
        """Give a stored handoff another state, as a reviewer does with a held handoff.

        Raises `KeyError` for an unknown id.
        """
        with self._changed:
            self._states[handoff_id]["state"] = state
            self._changed.notify_all()

    def fail(self, times: int = 1, *, status: int = 503, retry_after: int | None = None) -> None:
        """Answer the next `times` requests with the error `status`.

        `retry_after` is the header `Retry-After` in seconds; None leaves the header out.
        """
        headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
        self._failures += [_Stop(status, "The fake server fails", **headers) for _ in range(times)]

    def wait_for(self, number: int, timeout: float = 10.0) -> list[dict[str, Any]]:
        """Return the handoffs once `number` of them have arrived. Raises `AssertionError` after `timeout` seconds."""
        until = time.monotonic() + timeout
        with self._changed:
            while len(self.handoffs) < number:
                left = until - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"{len(self.handoffs)} of {number} handoffs arrived within {timeout:g} s")
                self._changed.wait(left)
        return list(self.handoffs.values())

    def handle(self, handler: _Handler, body: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON for a request. Raises `_Stop` for an error with only a title."""
        path = urlsplit(handler.path).path
        self.requests.append((handler.command, path))
        path = unquote(path)
        if self._failures:
            raise self._failures.pop(0)
        if handler.headers.get("Authorization") != f"Bearer {self.key}":
            raise _Stop(401, "Key needed")
        found = _WAIT.search(handler.headers.get("Prefer", ""))
        seconds = int(found[1]) if found else 0
        if handler.command == "POST" and path == "/api/v1/handoffs/batch":
            items = [self._store(line) for line in body.splitlines() if line.strip()]
            return 200, {"items": items, "totals": {}}
        if handler.command == "POST" and path == "/api/v1/handoffs":
            item = self._store(body)
            status = item.pop("status")
            return (200, self._shown(item["handoff_id"])) if seconds and status in (200, 202) else (status, item)
        if handler.command == "POST" and (place := _RESULTS.match(path)):
            return 200, self._store_results(place[1], body)
        if handler.command == "POST" and (place := _USE.match(path)):
            return self._use(self._ids.get(place[1], place[1]), handler.headers.get("Idempotency-Key", ""))
        if handler.command == "GET" and (place := _HANDOFF.match(path)):
            return self._wait(self._ids.get(place[1], place[1]), seconds)
        raise _Stop(404, "Not found")

    def _store(self, sent: bytes) -> dict[str, Any]:
        try:
            submission = json.loads(sent)
            document = submission["document"]
        except (ValueError, KeyError, TypeError):
            return {"status": 422, "state": "rejected", "id": new_id(), "issues": [_finding("It can't be read.")]}
        handoff_id = submission.get("handoff_id") or new_id()
        with self._changed:
            known = self.handoffs.get(handoff_id)
            server_id = new_id() if known is None else self._states[handoff_id]["id"]
            receipt = {"id": server_id, "handoff_id": handoff_id}
            if known is not None and _content(known) != _content(submission):
                return {**receipt, "status": 409, "title": "Conflict", "detail": "It has other content.", "state": ""}
            if known is None:
                self.handoffs[handoff_id] = submission
                self._states[handoff_id] = {**self._rule_for(document), "id": server_id}
                self._ids[server_id] = handoff_id
                self._changed.notify_all()
        state = self._states[handoff_id]["state"]
        return {**receipt, "status": 202 if known is None else 200, "state": state}

    def _rule_for(self, document: dict[str, Any]) -> dict[str, Any]:
        for wanted, given in self._rules:
            if all(document.get(name) == value for name, value in wanted.items()):
                return given
        return {"state": "accepted", "issues": []}

    def _shown(self, handoff_id: str) -> dict[str, Any]:
        found = self._states[handoff_id]
        links = {"page": f"/t/default/handoffs/{handoff_id}/"}
        shown = {"id": found["id"], "handoff_id": handoff_id, "state": found["state"], "links": links}
        return {**shown, "verdict": {"issues": found["issues"]}}

    def _wait(self, handoff_id: str, seconds: int) -> tuple[int, dict[str, Any]]:
        until = time.monotonic() + seconds
        with self._changed:
            if handoff_id not in self._states:
                raise _Stop(404, "Not found")
            while self._states[handoff_id]["state"] in _OPEN and time.monotonic() < until:
                self._changed.wait(until - time.monotonic())
        return 200, self._shown(handoff_id)

    def _use(self, handoff_id: str, key: str) -> tuple[int, dict[str, Any]]:
        with self._changed:
            found = self._states.get(handoff_id)
            if found is None:
                raise _Stop(404, "Not found")
            ended = found.get("approval")
            if found["state"] != "approved" or (ended and (ended != "used" or not key or found.get("use_key") != key)):
                detail = f"The approval can't be used: it is {ended or 'missing'}."
                problem = {"title": "The approval can't be used", "detail": detail, "approval": ended}
                return 409, {**problem, "state": found["state"]}
            found.update(approval="used", use_key=key)
        return 200, self._shown(handoff_id)

    def end_approval(self, handoff_id: str, status: str = "expired") -> None:
        """End the approval of a handoff: `used`, `expired` or `outdated`. Raises `KeyError` for an unknown id."""
        with self._changed:
            self._states[handoff_id]["approval"] = status

    def _store_results(self, trace: str, body: bytes) -> dict[str, Any]:
        results = json.loads(body)
        with self._changed:
            kept = self.tool_results.setdefault(trace, [])
            known = {one["call_id"] for one in kept}
            kept += [one for one in results if one["call_id"] not in known]
            self._changed.notify_all()
        return {"trace_id": trace, "grade": "in_process", "items": [], "totals": {}}


def _content(submission: dict[str, Any]) -> dict[str, Any]:
    # A repeated submission may have another time.
    return {name: value for name, value in submission.items() if name != "sent_at"}


def _finding(message: str) -> dict[str, Any]:
    return {"code": "test.finding", "severity": "error", "field_path": "", "message": message, "hint": ""}


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *args: Any) -> None:
        self._open: set[Any] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for request in list(self._open):
            self.shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # The headers and the body are two writes. Without this, the body would wait until the headers are acknowledged.
    disable_nagle_algorithm = True
    fake: FakeServer

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers: dict[str, str] = {}
        try:
            status, shown = self.fake.handle(self, body)
        except _Stop as stop:
            status, headers = stop.status, stop.headers
            shown = {"type": "about:blank", "title": stop.title, "status": status, "detail": ""}
        raw = json.dumps(shown).encode()
        kind = "application/problem+json" if "title" in shown else "application/json"
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)
        except OSError:
            # The server was stopped, or nobody waits for the answer.
            self.close_connection = True

    do_GET = do_POST = _answer  # noqa: N815 (the names of http.server)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name of http.server)
        """Write nothing."""
