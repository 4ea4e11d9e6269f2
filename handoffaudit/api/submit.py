"""API that submits handoffs: one handoff, or a batch."""

from collections import Counter
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import Router
from ninja.params.functions import Query

from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.api import examples, serializers
from handoffaudit.api.auth import KeyWith, caller
from handoffaudit.api.errors import Problem, problem_response
from handoffaudit.api.requests import read_body, seconds_to_wait
from handoffaudit.api.schemas import BatchOut, HandoffOut, ProblemOut, ReceiptOut, RejectedOut
from handoffaudit.handoffs import long_poll, queries
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.ingest.prepare import read_submission, split_batch
from handoffaudit.handoffs.ingest.store import Receipt
from handoffaudit.handoffs.models import WAITING_STATES
from handoffaudit.validation.formats import BY_NAME

router = Router(tags=["Handoffs"])

INGEST = KeyWith(Scope.INGEST, stores=True)

FORMAT: Any = Query(None, alias="format", description=f"The format of a document sent bare: {', '.join(BY_NAME)}.")

NAMED: Any = Query(
    None,
    alias="handoff_id",
    max_length=200,
    description="The id for a document without an id, so that you can safely send the document again.",
)


@router.post(
    "/handoffs",
    auth=INGEST,
    operation_id="submit_handoff",
    summary="Submit one handoff",
    response={
        200: HandoffOut | ReceiptOut,
        202: ReceiptOut,
        409: ProblemOut,
        413: ProblemOut,
        422: RejectedOut | ProblemOut,
    },
    openapi_extra=examples.SUBMIT,
)
def submit(request: HttpRequest, declared_format: str | None = FORMAT, handoff_id: str | None = NAMED) -> HttpResponse:
    """Store a handoff, and answer with a receipt or with the verdict.

    The handoff is stored before the call is answered. With `Prefer: wait=N` (seconds, up to 60) the answer is 200 with
    the verdict if the verdict is ready in time. The same `handoff_id` with the same content is answered 200; with other
    content 409, unless the stored handoff with this id could not be read.
    """
    who = caller(request)
    sent = read_body(request, settings.MAX_BODY_BYTES, may_be_empty=True)
    receipt = store.accept(who.tenant, who.actor, read_submission(sent, declared_format, handoff_id))
    seconds = seconds_to_wait(request)
    if seconds and receipt.status in (200, 202):
        return _wait_for_verdict(who.tenant, receipt, seconds)
    return _receipt_response(receipt, who.tenant.slug)


def _receipt_response(receipt: Receipt, slug: str) -> HttpResponse:
    shown = _receipt_json(receipt, slug)
    if receipt.status in (200, 202):
        return serializers.json_response(shown, receipt.status, Location=shown["links"]["self"])
    if receipt.status == 422:
        said = " ".join(issue.message for issue in receipt.issues)
        return problem_response(422, "Rejected: it can't be read", f"{said} It is kept as rejected.", **shown)
    return problem_response(receipt.status, receipt.title, receipt.detail, **(shown if receipt.id else {}))


def _receipt_json(receipt: Receipt, slug: str) -> dict[str, Any]:
    return serializers.receipt_of(receipt) | ({"links": serializers.links(receipt.id, slug)} if receipt.id else {})


def _wait_for_verdict(tenant: Tenant, receipt: Receipt, seconds: int) -> HttpResponse:
    if long_poll.are_too_many(tenant.pk):
        return _receipt_response(receipt, tenant.slug)
    handoff = long_poll.wait_while(lambda: queries.get(tenant, receipt.id), WAITING_STATES, seconds)
    if handoff.state in WAITING_STATES:
        return _receipt_response(receipt, tenant.slug)
    shown = serializers.handoff_of(handoff, tenant.slug) | serializers.replacement_of(handoff, tenant.slug)
    shown |= {"verdict": queries.current_verdict(handoff)}
    return serializers.json_response(shown, Preference_Applied=f"wait={seconds}", Location=shown["links"]["self"])


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

    The items are answered in order, each with its own status. A bad item does not affect the other items.
    """
    who = caller(request)
    items = _items(read_body(request, settings.MAX_BATCH_BYTES))
    receipts = store.accept_batch(who.tenant, who.actor, items, declared_format)
    shown = [_item(receipt, who.tenant.slug) for receipt in receipts]
    totals = Counter(str(receipt.status) for receipt in receipts)
    return serializers.json_response({"items": shown, "totals": totals, "links": {"codes": serializers.codes_link()}})


def _items(sent: bytes) -> list[bytes]:
    # A byte order mark at the start belongs to the file, not to its first document.
    sent = sent.removeprefix(b"\xef\xbb\xbf")
    lines = sent.lstrip()[:1] != b"["
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
        raise Problem(413, "Too many items", f"The batch has more than {most:,} items, the maximum.", limit=most)
    return items


def _item(receipt: Receipt, slug: str) -> dict[str, Any]:
    shown = {"status": receipt.status} | serializers.receipt_of(receipt)
    if receipt.id:
        # A batch has up to a thousand items, so each item carries only the two most useful links.
        links = serializers.links(receipt.id, slug)
        shown["links"] = {name: links[name] for name in ("self", "page")}
    return shown | ({"title": receipt.title, "detail": receipt.detail} if receipt.title else {})
