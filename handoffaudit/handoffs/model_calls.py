"""The record of what the model was asked: each call, kept with its answer and its cost in one commit."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from django.db import Error, connection, transaction
from django.utils import timezone

from handoffaudit.handoffs import model_answers, own_events
from handoffaudit.handoffs.models import ModelCall
from handoffaudit.handoffs.spending import Reservation
from handoffaudit.llm.calling import Call
from handoffaudit.validation.asking.question import Question, Unavailable
from handoffaudit.validation.text import clean

log = structlog.get_logger(__name__)

OK = "ok"


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks what, of which model, under which key an answer is kept."""

    tenant_id: int
    handoff: uuid.UUID | None
    question: Question
    model: str
    key: str

    def row(self, outcome: str, error: Unavailable | None = None) -> ModelCall:
        return ModelCall(
            tenant_id=self.tenant_id,
            handoff=self.handoff,
            at=timezone.now(),
            use=self.question.use.value,
            model=self.model[:100],
            prompt=self.question.prompt[:200],
            outcome=outcome,
            http_status=error.status if error else None,
            detail=clean(error.detail, 500) if error else "",
        )


def record(asker: Asker, call: Call, reservation: Reservation) -> None:
    """A call that was made: commits at once the row, the answer and what it cost, so that whoever dies after this pays
    nothing twice."""
    error = call.error
    row = asker.row(error.reason.value if error else OK, error)
    row.tokens_in, row.tokens_out, row.tokens_cached = (
        call.usage.tokens_in,
        call.usage.tokens_out,
        call.usage.tokens_cached,
    )
    row.cost_usd, row.latency_ms, row.tries = call.cost_usd, call.latency_ms, call.tries

    def write() -> None:
        row.save(force_insert=True)
        if call.answer:
            model_answers.keep(asker.tenant_id, asker.key, call.answer)
        reservation.settle(call.cost_usd)

    _commit(write)
    own_events.llm_called(row)


def record_cached(asker: Asker) -> None:
    """An equal question was answered before: this one cost nothing."""
    row = asker.row(OK)
    row.cached = True
    _commit(lambda: row.save(force_insert=True))
    own_events.llm_called(row)


def record_skipped(asker: Asker, error: Unavailable) -> None:
    """Nothing was asked, and why."""
    row = asker.row(error.reason.value, error)
    _commit(lambda: row.save(force_insert=True))
    own_events.llm_called(row)


def _commit(write: Callable[[], None]) -> None:
    """Where the database is away the answer still counts: it is paid for. The reservation then stays as it is."""
    for attempt in (1, 2):
        try:
            # Alone: a transaction around it could still be rolled back.
            with transaction.atomic(durable=True):
                write()
        except Error as error:
            log.warning("a call to the model could not be recorded", attempt=attempt, error=str(error))
            # It may have broken while the model was asked; the second attempt gets another.
            if not connection.in_atomic_block:
                connection.close()
        else:
            return
