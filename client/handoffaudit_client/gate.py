"""Gate: asks the server about one handoff, and waits for the verdict."""

from __future__ import annotations

import time
from urllib.parse import quote

from handoffaudit_client.transport import Unreachable
from handoffaudit_client.verdict import Verdict, read_refused_use, read_verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from handoffaudit_client.notices import Notices
    from handoffaudit_client.transport import Answer, Server

# The most seconds that the server waits in one request.
_LONGEST_WAIT = 60

# The longest pause before the gate asks again, if the server does not wait itself.
_POLL_SECONDS = 2.0

_FIRST_PAUSE = 0.05

# The least seconds for a request about a stored handoff. With less time, a slow server could never tell the decision.
_LEAST_SECONDS = 3.0

_JUDGED = (200, 202)

_LATER = {408, 425, 429}


class Gate:
    """Ask the server about one handoff. `passed` is called if the target may start."""

    def __init__(
        self,
        server: Server,
        notices: Notices,
        submission: bytes,
        handoff_id: str,
        target: str,
        passed: Callable[[], None],
    ) -> None:
        self._server = server
        self._notices = notices
        self._submission = submission
        self._handoff_id = handoff_id
        self._target = target
        self._passed = passed
        # Replaced by the server's id, which fits into every path and header.
        self._reference = handoff_id
        # A key with the scope `ingest` alone may not read, but it may send the same submission again.
        self._may_read = True

    def ask(self, timeout: float) -> Verdict:
        """Submit the handoff and return the verdict, which may still be open. Raises `Unreachable`."""
        until = time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while True:
            verdict = self._read(self._call("POST", "/handoffs", until - time.monotonic(), 0.05))
            if verdict.state not in ("received", "validating") or time.monotonic() + pause >= until:
                verdict = self._use(verdict, until)
                self._notices.end("away")
                return verdict
            # The server does not wait while many other requests wait.
            time.sleep(pause)
            pause = min(pause * 2, _POLL_SECONDS)

    def wait(self, timeout: float) -> Verdict:
        """Wait for the decision on a stored handoff, and return the verdict, which may still be open."""
        until = time.monotonic() + timeout
        while True:
            began = time.monotonic()
            try:
                verdict = self._use(self._read(self._look(until - began)), until)
            except Unreachable as error:
                verdict = self._hold(str(error))
            if not verdict.is_open or time.monotonic() >= until:
                return verdict
            if time.monotonic() - began < _POLL_SECONDS:
                time.sleep(max(min(_POLL_SECONDS, until - time.monotonic()), 0.0))

    def _look(self, left: float) -> Answer:
        if self._may_read:
            try:
                return self._call("GET", f"/handoffs/{quote(self._reference, safe='')}", left)
            except _NotAllowed:
                self._may_read = False
        return self._call("POST", "/handoffs", min(left, _POLL_SECONDS))

    def _use(self, verdict: Verdict, until: float) -> Verdict:
        """Use the approval of an approved handoff, and return the verdict: false if the server refuses the use.

        An approval works once. Repeated calls for a handoff count as one, because frameworks run a node again when they
        resume. Raises `Unreachable`.
        """
        if verdict.state == "approved":
            path = f"/handoffs/{quote(self._reference, safe='')}/use"
            answer = self._call("POST", path, until - time.monotonic(), idempotency_key=self._reference)
            if answer.is_problem:
                return read_refused_use(answer.json, self._handoff_id, verdict.url, self.wait)
            if answer.status != 200:
                raise Unreachable(f"{self._server.url} does not let the approval be used ({answer.explain()})")
        if verdict:
            self._passed()
        return verdict

    def _call(
        self, method: str, path: str, left: float, least: float = _LEAST_SECONDS, *, idempotency_key: str = ""
    ) -> Answer:
        """Return an answer about the handoff; try again while the server is busy or broken.

        The server may wait for a decision within `left` seconds. The time for all tries is `left` or `least` seconds,
        whichever is more. Raises `Unreachable` without a usable answer in that time, and `_NotAllowed` if a GET finds
        no handoff that the key may read.
        """
        ends = time.monotonic() + left
        until = ends + max(least - left, 0.0)
        while True:
            began = time.monotonic()
            # Let the server wait for less than the whole time, so that its answer arrives in time.
            wait = max(int(min((ends - began) * 0.9, _LONGEST_WAIT)), 0)
            headers = {"Prefer": f"wait={wait}"} if wait else {}
            if idempotency_key:
                headers = {"Idempotency-Key": idempotency_key}
            body = self._submission if method == "POST" and not idempotency_key else None
            if body:
                headers["Content-Type"] = "application/json"
            answer = self._server.call(method, path, body, timeout=max(until - began, 0.05), headers=headers)
            took = (time.monotonic() - began) * 1000
            told = f"{method} {path} → {answer.status}"
            self._notices.debug(lambda: f"{told} {answer.json.get('state', '')} in {took:.0f} ms")  # noqa: B023
            if method == "GET" and answer.status in (401, 403, 404):
                raise _NotAllowed
            if answer.status < 500 and answer.status not in _LATER:
                return answer
            pause = max(answer.retry_after, 0.2)
            if time.monotonic() + pause >= until:
                raise Unreachable(f"{self._server.url} is busy or broken ({answer.explain()})")
            time.sleep(pause)

    def _read(self, answer: Answer) -> Verdict:
        found = answer.json
        if answer.status in _JUDGED and found.get("state"):
            self._reference = str(found.get("id") or self._reference)
            verdict = read_verdict(found, self._handoff_id, self._target, self.wait)
            if verdict.url.startswith("/"):
                verdict.url = self._server.url + verdict.url
            return verdict
        if answer.status in (409, 413, 422) or answer.refuses_document:
            return read_verdict(found or {"detail": answer.explain()}, self._handoff_id, self._target)
        raise Unreachable(
            f"{self._server.url} does not judge handoffs ({answer.explain()}): check the address and the key"
        )

    def _hold(self, why: str) -> Verdict:
        text = f"There is no decision yet: {why}. {self._target or 'The next agent'} must wait for it."
        return Verdict("held", text, handoff_id=self._handoff_id, ask=self.wait)


class _NotAllowed(Exception):
    """The error for a handoff that the key may not read, or that the server does not find."""
