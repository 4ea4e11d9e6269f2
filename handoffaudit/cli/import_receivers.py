"""Receivers of imported handoffs: a server with the API, or the local database."""

import contextlib
import http.client
import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import click
import msgspec
import orjson

from handoffaudit.cli import Stop
from handoffaudit.cli.import_files import Answer, Item

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant
    from handoffaudit.handoffs.ingest.prepare import Receipt
    from handoffaudit.validation.submission import Submission


TIMEOUT_SECONDS = 120

TRIES = 8

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0

# The longest time that the client waits because of a `Retry-After` header, in seconds.
LONGEST_WAIT_ASKED = 300.0

BUSY = {429, 502, 503, 504}


class Server:
    """Client of a server. The client repeats a request while the server is busy or cannot be reached.

    Error messages name `scope`, the scope that the key needs, and `again`, the action to repeat. Errors end the command
    with the exit code `code`.
    """

    scope = "ingest"
    again = "import again"
    code = 1

    def __init__(self, url: str, key: str) -> None:
        from handoffaudit.cli.hook_server import check_server

        self._url = check_server(url, key, 2).url
        parts = urlsplit(self._url)
        self._base = f"{parts.path.rstrip('/')}/api/v1"
        connection_type = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = connection_type(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)
        self._headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}

    def close(self) -> None:
        self._connection.close()

    def post(self, path: str, body: bytes, content_type: str, **headers: str) -> tuple[int, dict[str, Any]]:
        return self.request("POST", path, body, content_type, **headers)

    def request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Send a request, and return the status and the answer.

        Raises `Stop` after `TRIES` tries, or earlier if another try would not help.

        `path` is relative to the base address of the API.
        """
        sent = {
            **self._headers,
            "Content-Type": content_type,
            **{name.replace("_", "-"): v for name, v in headers.items()},
        }
        pause = FIRST_PAUSE
        for number in range(1, TRIES + 1):
            try:
                self._connection.request(method, self._base + path, body, sent)
                response = self._connection.getresponse()
                status, content, retry_after = response.status, response.read(), response.headers.get("Retry-After")
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if number == TRIES:
                    said = f"{self._url} can't be reached ({error}): check it, then {self.again}."
                    raise Stop(said, self.code) from error
                # A server may close an idle connection, so the first failure is not reported.
                if number == 2:
                    # On a terminal, replace the progress bar.
                    clear = "\r\x1b[K" if sys.stderr.isatty() else ""
                    said = f"{self._url} can't be reached ({error}): trying again for about a minute."
                    click.echo(clear + said, err=True)
            else:
                if status not in BUSY:
                    return status, self._check(status, content)
                if number == TRIES:
                    said = f"{self._url} is busy ({describe_refusal(status, _parse(content))}): {self.again} later."
                    raise Stop(said, self.code)
                pause = max(pause, _parse_seconds(retry_after))
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def _check(self, status: int, body: bytes) -> dict[str, Any]:
        parsed = _parse(body)
        if status in {401, 403} and "issues" not in parsed:
            raise Stop(
                f"{self._url} refuses the key ({describe_refusal(status, parsed)}): use a key with the scope"
                f" {self.scope}.",
                self.code,
            )
        # If a body is too large for a proxy in front of the server, the proxy answers with a page that is not JSON.
        if status == 404 or not (parsed or status == 413):
            raise Stop(f"{self._url} answers with {status} and is not a handoffaudit server: check --url.", self.code)
        return parsed


class ServerReceiver(Server):
    """Receiver that sends handoffs to a server.

    Sending a handoff again is safe: each item has an id, by which the server recognises a stored handoff.
    """

    def send(self, items: Sequence[Item]) -> list[Answer]:
        answers: dict[int, Answer] = {}
        together = [(at, item) for at, item in enumerate(items) if not (item.raw or item.alone)]
        if together:
            sent = self._send_batch([item for _, item in together])
            answers = {at: answer for (at, _), answer in zip(together, sent, strict=True)}
        for at, item in enumerate(items):
            if item.raw or item.alone:
                answers[at] = self._send_alone(item)
        return [answers[at] for at in range(len(items))]

    def _send_batch(self, items: Sequence[Item]) -> list[Answer]:
        """Send a batch, in halves if it is too large for the server or for a proxy in front of the server."""
        # A line end between two JSON tokens would end the line of the batch. A JSON string never contains a line end.
        body = b"\n".join(item.sent.replace(b"\n", b" ") for item in items)
        status, response = self.post("/handoffs/batch", body, "application/x-ndjson")
        if status == 413 and len(items) == 1:
            return [_read_answer(status, response)]
        if status == 413:
            half = len(items) // 2
            return self._send_batch(items[:half]) + self._send_batch(items[half:])
        if status != 200:
            raise Stop(f"{self._url} does not take the batch ({describe_refusal(status, response)}).", 1)
        return [_read_answer(one["status"], one) for one in response["items"]]

    def _send_alone(self, item: Item) -> Answer:
        query = {"handoff_id": item.handoff_id}
        if isinstance(item.beside.get("format"), str):
            query["format"] = item.beside["format"]
        status, response = self.post(f"/handoffs?{urlencode(query, quote_via=quote)}", item.sent, "application/json")
        return _read_answer(status, response)


def _parse(body: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        parsed = json.loads(body)
        if isinstance(parsed, dict):
            return parsed
    return {}


def _read_answer(status: int, response: dict[str, Any]) -> Answer:
    if status in {200, 202, 422}:
        return Answer(status, codes=tuple(issue["code"] for issue in response.get("issues", ())))
    return Answer(status, why=f"{status} {response.get('title', '')}".strip(), remedy=response.get("detail", ""))


def describe_refusal(status: int, response: dict[str, Any]) -> str:
    return ": ".join(
        part for part in (str(status), response.get("title", ""), response.get("detail", "")) if part
    ).rstrip(".")


def _parse_seconds(header: str | None) -> float:
    """Return the seconds of a `Retry-After` header, at most `LONGEST_WAIT_ASKED`; 0 without a header or for a date."""
    return min(float(header), LONGEST_WAIT_ASKED) if header and header.isdecimal() else 0.0


class DatabaseReceiver:
    """Receiver that stores handoffs in the local database."""

    def __init__(self, tenant: "Tenant") -> None:
        from handoffaudit.handoffs.models import ActorKind
        from handoffaudit.handoffs.transitions import Actor

        self._tenant = tenant
        self._sender = Actor(ActorKind.SYSTEM, "handoffaudit import")

    def send(self, items: Sequence[Item]) -> list[Answer]:
        from handoffaudit.handoffs.ingest import store

        receipts = store.accept_many(self._tenant, self._sender, [_make_submission(item) for item in items])
        return [_make_answer(receipt) for receipt in receipts]

    def close(self) -> None:
        """Wake the workers, in case the process ends before the wake-up of the last batch was sent."""
        from handoffaudit.handoffs import notify

        notify.send()


def _make_submission(item: Item) -> "Submission":
    from handoffaudit.handoffs.ingest.prepare import read_submission
    from handoffaudit.validation.submission import Submission

    if item.raw:
        return _make_raw_submission(item)
    submission: Submission = read_submission(item.sent)
    return msgspec.structs.replace(
        submission, envelope=msgspec.structs.replace(submission.envelope, handoff_id=item.handoff_id)
    )


def _make_raw_submission(item: Item) -> "Submission":
    """Return the submission of a document that is not JSON.

    If a field beside the document is invalid, all these fields except the id of the handoff are left out.
    """
    from handoffaudit.handoffs.ingest.prepare import read_submission
    from handoffaudit.validation.submission import Submission

    envelope = orjson.dumps({**item.beside, "handoff_id": item.handoff_id, "document": None})
    beside = read_submission(envelope)
    if beside.issues:
        beside = read_submission(orjson.dumps({"handoff_id": item.handoff_id, "document": None}))
    return Submission(
        document=item.sent,
        format=beside.format,
        context=beside.context,
        evidence=beside.evidence,
        envelope=beside.envelope,
    )


def _make_answer(receipt: "Receipt") -> Answer:
    extra: dict[str, Any] = {}
    if receipt.title:
        extra = {"why": f"{receipt.status} {receipt.title}", "remedy": receipt.detail}
    return Answer(status=receipt.status, codes=tuple(issue.code for issue in receipt.issues), **extra)
