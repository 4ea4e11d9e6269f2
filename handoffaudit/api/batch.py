"""API that submits handoffs in batches."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any
from uuid import UUID

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router
from ninja.params import functions as parameters
from pydantic import Field

from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import examples, serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem
from handoffaudit.api.requests import CODES, read_body, seconds_to_wait
from handoffaudit.api.schemas import IssueOut
from handoffaudit.api.serializers import Answer, ProblemOut, Stored
from handoffaudit.handoffs import long_poll, queries
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.ingest.prepare import Receipt, split_trace_export
from handoffaudit.handoffs.models import WAITING_STATES
from handoffaudit.handoffs.queries import MOST_SUMMARY_ISSUES, JudgedSummary
from handoffaudit.validation.formats import BY_NAME, framework
from handoffaudit.validation.json_text import parse_json, split_array
from handoffaudit.validation.submission import UNREADABLE, Submission

router = Router(tags=["Handoffs"])

_VISIBLE = re.compile(rb"\S")

INGEST = KeyWith(Scope.INGEST, stores=True)

FORMAT: Any = parameters.Query(
    None, alias="format", description=f"The format, if the body is the document itself: {', '.join(BY_NAME)}."
)

NAMED: Any = parameters.Query(
    None,
    alias="handoff_id",
    max_length=200,
    description="The id for a document without an id, so that you can safely send the document again.",
)


class BatchVerdictOut(Answer):
    """The verdict on an item, with the fields that a sender needs; `links.self` has the whole verdict."""

    outcome: str = Field(description="accepted, rejected or held.", examples=["accepted"])
    valid: bool = Field(
        description="Whether no finding has severity error or critical. Also true for a held handoff: test the item's "
        "`state` before you start the next agent."
    )
    would_decide: str = Field(description="The outcome without shadow mode.", examples=["accepted"])
    quality_score: float = Field(description="0.0 to 1.0.", examples=[1.0])
    recommended_action: str | None = Field(
        description="accept, accept_with_warnings, retry, re_retrieve, insufficient_evidence or escalate."
    )
    unverified: bool = Field(description="Whether the LLM check is missing; the check is made later if possible.")
    issues: list[IssueOut] = Field(description=f"The findings, the most severe first; at most {MOST_SUMMARY_ISSUES}.")
    issues_total: int = Field(description="The number of all findings of the verdict.", examples=[0])


class BatchItemOut(Answer):
    status: int = Field(description="The HTTP status that the document would get if sent alone.", examples=[202])
    links: dict[str, str] = Field({}, description="`self` and `page`, if the handoff was stored.")
    id: str = Field(description="The server's id; empty if nothing was stored.")
    handoff_id: str = Field(description="The sender's id; the server's id if the sender gave none.")
    state: str = Field(description="The current state; empty if nothing was stored.")
    verdict: Annotated[BatchVerdictOut | None, Stored] = Field(
        None, description="With `Prefer: wait`: the verdict; left out if the item was not judged in time."
    )
    issues: list[IssueOut] = Field([], description="Why the document is unreadable, if it is stored as rejected (422).")
    title: str = Field(
        "",
        description="Title of the problem, if the item was refused: 403, 409, 413, or 422 for tool results that can't "
        "be stored.",
    )
    detail: str = Field("", description="How to solve the problem.")


class BatchOut(Answer):
    items: list[BatchItemOut] = Field(description="The items in the order sent.")
    totals: dict[str, int] = Field(description="Number of items by status.", examples=[{"202": 499, "422": 1}])
    links: dict[str, str] = Field(
        description=CODES, examples=[{"codes": "https://audit.example.com/help/codes/{code}/"}]
    )


@router.post(
    "/handoffs/batch",
    auth=INGEST,
    operation_id="submit_batch",
    summary="Submit up to 1,000 handoffs",
    response={200: BatchOut, 413: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.BATCH,
)
def submit_batch(request: HttpRequest, declared_format: str | None = FORMAT) -> HttpResponse:
    """Store the handoffs of a JSON array, or of one document per line (NDJSON).

    A body that is one JSON object over several lines is one handoff. The items are answered in order, each with its own
    status. A bad item does not affect the other items. With `Prefer: wait=N` (seconds, up to 60) the answer comes when
    all items are judged, at the latest after N seconds. Each item that is judged by then has the status 200, its state
    and its verdict.
    """
    who = caller(request)
    items = _items(read_body(request, settings.MAX_BATCH_BYTES))
    try:
        receipts = store.accept_batch(who.tenant, who.actor, items, declared_format, who.key.grade)
    except store.TooManyHandoffs:
        raise _too_many() from None
    return answer_receipts(request, receipts)


@router.post(
    "/openai-agents/traces",
    auth=INGEST,
    operation_id="ingest_openai_agents_traces",
    summary="Store the handoffs of a trace export of OpenAI Agents",
    response={200: BatchOut, 413: ProblemOut, 422: ProblemOut},
    openapi_extra=examples.TRACE_EXPORT,
)
def ingest_traces(request: HttpRequest) -> HttpResponse:
    """Store each handoff of a trace export, with the LLM's last output before the handoff.

    Prompts and all other spans are left out. The address is also `/v1/traces/ingest`, where the trace exporter of the
    SDK posts. An export without handoffs is answered with no items. A span that is sent again makes no second handoff.
    """
    who = caller(request)
    sent = Submission(document=read_body(request, settings.MAX_BATCH_BYTES), format=framework.NAME)
    document, issues = parse_json(sent.document, max_depth=settings.MAX_NESTING)
    if issues or not isinstance(document, dict) or not isinstance(document.get("data"), list):
        said = " ".join(f"{issue.message} {issue.hint}" for issue in issues) or '"data" is not a list of spans.'
        raise Problem(422, "The trace export can't be read", said)
    parts = split_trace_export(sent, document)
    check_number(len(parts))
    return answer_receipts(request, store.accept_many(who.tenant, who.actor, parts, who.key.grade))


def check_number(number: int) -> None:
    """Raise `Problem` 413 if `number`, the handoffs of an export, is above the maximum of a batch."""
    if number > settings.MAX_BATCH_ITEMS:
        raise _too_many()


def _too_many() -> Problem:
    most = settings.MAX_BATCH_ITEMS
    return Problem(413, "Too many items", f"The batch has more than {most:,} items, the maximum.", limit=most)


def answer_receipts(request: HttpRequest, receipts: Sequence[Receipt]) -> HttpResponse:
    """Answer with an item for each receipt and, with `Prefer: wait=N`, with the verdicts that come in time.

    If too many requests of the tenant wait already, the answer comes immediately, without verdicts.
    """
    who = caller(request)
    seconds = seconds_to_wait(request)
    judged: dict[str, JudgedSummary] = {}
    headers: dict[str, Any] = {}
    if seconds and not long_poll.are_too_many(who.tenant.pk):
        with long_poll.tolerate_faults():
            judged = _wait_for_verdicts(who.tenant, receipts, seconds)
            headers = {"Preference_Applied": f"wait={seconds}"}
    slug = who.tenant.slug
    shown = [_item(receipt, slug, judged.get(receipt.id)) for receipt in receipts]
    totals = Counter(str(item["status"]) for item in shown)
    content = {"items": shown, "totals": totals, "links": {"codes": serializers.codes_link()}}
    return serializers.json_response(content, **headers)


def _wait_for_verdicts(tenant: Tenant, receipts: Sequence[Receipt], seconds: int) -> dict[str, JudgedSummary]:
    """Return the judged handoffs of the batch by id, after at most `seconds`."""
    stored = {UUID(receipt.id) for receipt in receipts if receipt.status in (200, 202)}
    long_poll.wait_for_all(tenant.pk, stored, WAITING_STATES, seconds)
    return {str(pk): summary for pk, summary in queries.summaries(tenant, stored).items()}


def _items(sent: bytes) -> list[bytes]:
    # A byte order mark at the start belongs to the file, not to its first document.
    sent = sent.removeprefix(b"\xef\xbb\xbf")
    text = sent.lstrip()
    if _is_one_object(text):
        return [sent]
    lines = text[:1] != b"["
    most = settings.MAX_BATCH_ITEMS
    try:
        items = split_batch(sent, lines=lines, most=most)
    except ValueError as error:
        raise Problem(
            422,
            "The batch can't be read",
            f"{error} Or send one document per line, so that a bad document does not affect the others.",
        ) from error
    if not items:
        raise Problem(422, "An empty batch", "Send at least one document.")
    if len(items) > most:
        raise _too_many()
    return items


def split_batch(sent: bytes, *, lines: bool, most: int) -> list[bytes]:
    """Return the raw bytes of each item of a batch, at most `most + 1` items.

    `lines` selects NDJSON; otherwise the batch is a JSON array. The limit bounds memory, because millions of items
    would take a hundred times the memory of the request body. Raise `ValueError` with the line and column if the JSON
    array cannot be read.
    """
    if lines:
        return list(islice(_split_lines(sent), most + 1))
    try:
        return split_array(sent, most)
    except UNREADABLE as error:
        _, issues = parse_json(sent, max_depth=settings.MAX_NESTING + 2)
        messages = [f"{issue.message} {issue.hint}" for issue in issues]
        raise ValueError(messages[0] if messages else f"The batch is not a JSON array: {error}.") from error


def _split_lines(sent: bytes) -> Iterator[bytes]:
    """Yield each line that is not blank."""
    end = 0
    while found := _VISIBLE.search(sent, end):
        start, end = found.start(), sent.find(b"\n", found.start())
        end = len(sent) if end < 0 else end
        yield sent[sent.rfind(b"\n", 0, start) + 1 : end]


def _is_one_object(text: bytes) -> bool:
    """Return whether the body is one JSON object over several lines, as programs print it for people."""
    end = text.find(b"\n")
    # A line that is an object ends with its brace, so the lines of an ordinary batch are not parsed here.
    if text[:1] != b"{" or end < 0 or text[:end].rstrip().endswith(b"}"):
        return False
    try:
        return bool(msgspec.json.decode(text, type=msgspec.Raw))
    except UNREADABLE:
        return False


def _item(receipt: Receipt, slug: str, judged: JudgedSummary | None) -> dict[str, Any]:
    shown = {"status": receipt.status} | serializers.receipt_of(receipt)
    if receipt.id:
        shown["links"] = serializers.main_links(receipt.id, slug)
    if judged and receipt.status in (200, 202):
        shown |= {"status": 200, "state": judged.state, "verdict": judged.verdict}
    return shown | ({"title": receipt.title, "detail": receipt.detail} if receipt.title else {})
