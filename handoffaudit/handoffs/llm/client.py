"""The LLM as the product asks it: once for equal questions, within the budget; each call is recorded."""

import hashlib
import threading
import uuid
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

import structlog
from django.conf import settings
from django.db import Error, connection, transaction
from django.utils import timezone

from handoffaudit.handoffs import event_log
from handoffaudit.handoffs.db import release_connection
from handoffaudit.handoffs.llm import limits
from handoffaudit.handoffs.llm.limits import Reservation
from handoffaudit.handoffs.models import ModelAnswer, ModelCall
from handoffaudit.llm.breaker import Breaker, is_outage
from handoffaudit.llm.calls import Call, Caller
from handoffaudit.llm.service import caller_from, client_from
from handoffaudit.validation.ports import LanguageModel
from handoffaudit.validation.prompts.question import Answer, MalformedAnswer, NoModel, Question, Reason, Unavailable
from handoffaudit.validation.text import clean, storable

log = structlog.get_logger(__name__)

FORGOTTEN_AT_ONCE = 1000


def answer_key(model: str, question: Question) -> str:
    """The same for equal questions to the same model."""
    return hashlib.sha256(f"{model} {question.digest}".encode()).hexdigest()


def find_answer(tenant_id: int, key: str, question: Question) -> Answer | None:
    """The answer to an equal question, where it is kept, not too old, and still reads as one."""
    try:
        row = ModelAnswer.objects.filter(tenant=tenant_id, key=key, at__gte=_oldest_valid()).first()
    except Error as error:
        log.warning("kept answers of the model can't be read", error=str(error))
        return None
    if row is None:
        return None
    try:
        value = question.read(row.text)
    except MalformedAnswer:
        return None
    return Answer(value, row.text, row.model, row.cost_usd, row.latency_ms, cached=True)


def store_answer(tenant_id: int, key: str, answer: Answer) -> None:
    """Keeps it in place of an older one; call inside the transaction that records the call."""
    if not storable(answer.text):
        return
    row = ModelAnswer(
        tenant_id=tenant_id,
        key=key,
        model=answer.model[:100],
        text=answer.text,
        cost_usd=answer.cost_usd,
        latency_ms=answer.latency_ms,
        at=timezone.now(),
    )
    ModelAnswer.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["tenant", "key"],
        update_fields=["model", "text", "cost_usd", "latency_ms", "at"],
    )


def delete_old_answers() -> int:
    """Deletes some of those that count no more; how many. Call it again and again: each takes a bite."""
    old = ModelAnswer.objects.filter(at__lt=_oldest_valid()).order_by("at").values_list("pk", flat=True)
    bite = list(old[:FORGOTTEN_AT_ONCE])
    return ModelAnswer.objects.filter(pk__in=bite).delete()[0] if bite else 0


def _oldest_valid() -> datetime:
    return timezone.now() - timedelta(days=settings.MODEL_CACHE_DAYS)


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


def record_call(asker: Asker, call: Call, reservation: Reservation) -> None:
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
            store_answer(asker.tenant_id, asker.key, call.answer)
        reservation.settle(call.cost_usd)

    _commit(write)
    event_log.log_llm_call(row)


def record_cached(asker: Asker) -> None:
    """An equal question was answered before: this one cost nothing."""
    row = asker.row(OK)
    row.cached = True
    _commit(lambda: row.save(force_insert=True))
    event_log.log_llm_call(row)


def record_skipped(asker: Asker, error: Unavailable) -> None:
    """Nothing was asked, and why."""
    row = asker.row(error.reason.value, error)
    _commit(lambda: row.save(force_insert=True))
    event_log.log_llm_call(row)


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


NO_KEY = "No key is set for the model (ANTHROPIC_API_KEY)."


def is_configured() -> bool:
    """Whether there is a key, or a provider that brings its own."""
    return bool(settings.ANTHROPIC_API_KEY.strip()) or settings.MODEL_PROVIDER != "anthropic"


def model_for(tenant_id: int, handoff: uuid.UUID | None) -> LanguageModel:
    """The model, asked for a tenant: its answers, its budget, its records. `handoff` is what the records tell of."""
    caller = _provider_caller(
        settings.MODEL_PROVIDER,
        settings.ANTHROPIC_API_KEY,
        settings.MODEL_BASE_URL,
        float(settings.MODEL_CONNECT_SECONDS),
        (settings.MODEL_FAST, settings.MODEL_CAREFUL),
        float(settings.MODEL_SECONDS),
        settings.MODEL_TRIES,
    )
    return _Model(tenant_id, handoff, caller) if caller else NoModel(Reason.NO_KEY, NO_KEY)


def prepare_client() -> None:
    """Load what the first question to the LLM needs. Takes seconds; a failure is left to that question."""
    client = client_from(
        settings.MODEL_PROVIDER,
        settings.ANTHROPIC_API_KEY,
        settings.MODEL_BASE_URL,
        connect_seconds=float(settings.MODEL_CONNECT_SECONDS),
    )
    if client:
        try:
            client.prepare()
        except Unavailable as error:
            log.warning("the LLM cannot be asked yet", reason=error.reason.value)


@lru_cache(maxsize=8)
def _provider_caller(
    provider: str,
    api_key: str,
    base_url: str,
    connect_seconds: float,
    models: tuple[str, str],
    seconds: float,
    tries: int,
) -> Caller | None:
    """One for a process: its connections are shared."""
    client = client_from(provider, api_key, base_url, connect_seconds=connect_seconds)
    fast, careful = models
    return caller_from(client, fast=fast, careful=careful, seconds=seconds, tries=tries) if client else None


class _Flights:
    """Questions that this process is asking now. Other processes may ask an equal one at the same time: both pay, and
    one answer is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flying: dict[Hashable, Future[Answer]] = {}

    def join(self, key: Hashable) -> "tuple[Future[Answer], bool]":
        """The answer to come, and whether the caller is the one who has to fetch it, and to `land`."""
        with self._lock:
            found = self._flying.get(key)
            if found:
                return found, False
            mine = self._flying[key] = Future()
            return mine, True

    def land(self, key: Hashable) -> None:
        with self._lock:
            del self._flying[key]


_flights = _Flights()


@dataclass(frozen=True, slots=True)
class _Model:
    tenant_id: int
    handoff: uuid.UUID | None
    caller: Caller

    def ask(self, question: Question) -> Answer:
        """Raises `Unavailable`."""
        model = self.caller.model_of(question.role)
        key = answer_key(model, question)
        asker = Asker(self.tenant_id, self.handoff, question, model, key)
        while True:
            flight, mine = _flights.join((self.tenant_id, key))
            if mine:
                return self._fetched(asker, flight)
            answer = _wait_for_flight(asker, flight)
            if answer:
                return answer

    def _fetched(self, asker: Asker, flight: "Future[Answer]") -> Answer:
        try:
            answer = self._answer(asker)
        except BaseException as error:
            flight.set_exception(error)
            raise
        else:
            flight.set_result(answer)
            return answer
        finally:
            _flights.land((self.tenant_id, asker.key))

    def _answer(self, asker: Asker) -> Answer:
        kept = find_answer(self.tenant_id, asker.key, asker.question)
        if kept:
            record_cached(asker)
            return kept
        try:
            admitted = limits.admit(asker.model)
            reservation = self._reserved(asker, admitted)
        except Unavailable as error:
            record_skipped(asker, error)
            raise
        release_connection()
        call = self.caller.call(asker.question)
        record_call(asker, call, reservation)
        _record_in_breaker(asker.model, admitted, call)
        if call.answer is None:
            raise call.error or AssertionError("a call ends with an answer or an error")
        return call.answer

    def _reserved(self, asker: Asker, admitted: Breaker) -> limits.Reservation:
        try:
            return limits.reserve(self.tenant_id, self.caller.estimate(asker.question))
        except Unavailable:
            limits.return_admission(asker.model, admitted)
            raise


def _wait_for_flight(asker: Asker, flight: "Future[Answer]") -> Answer | None:
    """What another thread fetches at this moment; None where it failed for a reason of its own."""
    release_connection()
    try:
        answer = flight.result()
    except Unavailable as error:
        record_skipped(asker, error)
        # Its own one: threads that raise the same write their traces into each other.
        raise Unavailable(error.reason, error.detail, retry_after=error.retry_after, status=error.status) from None
    except BaseException:  # noqa: BLE001 -- told by the thread that it happened to
        return None
    record_cached(asker)
    value = asker.question.read(answer.text)
    return Answer(value, answer.text, answer.model, answer.cost_usd, answer.latency_ms, cached=True)


def _record_in_breaker(model: str, admitted: Breaker, call: Call) -> None:
    """A database that is away must not cost the answer."""
    try:
        if call.error and is_outage(call.error):
            limits.record_failure(model, call.error)
        elif call.tries:
            limits.record_success(model)
        else:
            limits.return_admission(model, admitted)
    except Error as error:
        log.warning("the breaker of the model could not be told", model=model, error=str(error))
