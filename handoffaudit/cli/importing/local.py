"""Straight into the local database."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from handoffaudit.cli.importing.answers import Answer
from handoffaudit.cli.importing.items import Item

if TYPE_CHECKING:
    from handoffaudit.accounts.models import Tenant
    from handoffaudit.handoffs.ingest.store import Receipt
    from handoffaudit.validation.submission import Submission


class Local:
    def __init__(self, tenant: "Tenant") -> None:
        from handoffaudit.handoffs.models import ActorKind
        from handoffaudit.handoffs.transitions import Actor

        self._tenant = tenant
        self._sender = Actor(ActorKind.SYSTEM, "handoffaudit import")

    def send(self, items: Sequence[Item]) -> list[Answer]:
        from handoffaudit.handoffs.ingest import store

        receipts = store.accept_many(self._tenant, self._sender, [_submission(item) for item in items])
        return [_answer(receipt) for receipt in receipts]

    def close(self) -> None:
        """Wakes the workers a last time, in case the process ends before a wake-up of its batches went out."""
        from handoffaudit.handoffs import notify

        notify.send()


def _submission(item: Item) -> "Submission":
    from handoffaudit.handoffs.ingest.prepare import read_submission
    from handoffaudit.validation.submission import Submission

    if item.raw:
        return _raw_submission(item)
    submission: Submission = read_submission(item.sent)
    return replace(submission, envelope=replace(submission.envelope, handoff_id=item.handoff_id))


def _raw_submission(item: Item) -> "Submission":
    from handoffaudit.handoffs.ingest.prepare import read_submission
    from handoffaudit.validation.submission import Submission

    envelope = orjson.dumps({**item.beside, "handoff_id": item.handoff_id, "document": None})
    around = read_submission(envelope)
    if around.issues:
        around = read_submission(orjson.dumps({"handoff_id": item.handoff_id, "document": None}))
    return Submission(
        document=item.sent,
        format=around.format,
        context=around.context,
        evidence=around.evidence,
        envelope=around.envelope,
    )


def _answer(receipt: "Receipt") -> Answer:
    extra: dict[str, Any] = {}
    if receipt.status in {403, 409, 413}:
        extra = {"why": f"{receipt.status} {receipt.title}", "remedy": receipt.detail}
    return Answer(status=receipt.status, codes=tuple(issue.code for issue in receipt.issues), **extra)
