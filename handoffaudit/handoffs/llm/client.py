"""The server's LLM client. The client caches answers to equal questions, keeps to the budget, and records each call."""

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

from handoffaudit.handoffs import counts, event_log
from handoffaudit.handoffs.counts import Total
from handoffaudit.handoffs.db import release_connection
from handoffaudit.handoffs.llm import limits
from handoffaudit.handoffs.llm.limits import Reservation
from handoffaudit.handoffs.models import ModelAnswer, ModelCall
from handoffaudit.llm.calls import Breaker, Call, Caller, is_outage
from handoffaudit.llm.service import build_caller, build_client
from handoffaudit.validation.layers.base import LanguageModel
from handoffaudit.validation.prompts.question import Answer, MalformedAnswer, NoModel, Question, Reason, Unavailable
from handoffaudit.validation.text import clean, storable

log = structlog.get_logger(__name__)

FORGOTTEN_AT_ONCE = 1000


def answer_key(model: str, question: Question) -> str:
    """Return the cache key of a question. Equal questions to the same LLM have equal keys."""
    return hashlib.sha256(f"{model} {question.digest}".encode()).hexdigest()


def find_answer(tenant_id: int, key: str, question: Question) -> Answer | None:
    """Return the stored answer to an equal question, or None if there is no answer that is recent and readable."""
    try:
        row = ModelAnswer.objects.filter(tenant=tenant_id, key=key, at__gte=_find_oldest_valid_time()).first()
    except Error as error:
        log.warning("stored answers of the LLM can't be read", error=str(error))
        return None
    if row is None:
        return None
    try:
        value = question.read(row.text)
    except MalformedAnswer:
        return None
    return Answer(value, row.text, row.model, row.cost_usd, row.latency_ms, cached=True)


def store_answer(tenant_id: int, key: str, answer: Answer) -> None:
    """Store the answer, and replace an older answer. Call inside the transaction that records the call.

    An answer with characters that the database cannot store is left out.
    """
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
    """Delete expired answers and return their number. Each call deletes at most `FORGOTTEN_AT_ONCE`."""
    old = ModelAnswer.objects.filter(at__lt=_find_oldest_valid_time()).order_by("at").values_list("pk", flat=True)
    batch = list(old[:FORGOTTEN_AT_ONCE])
    return ModelAnswer.objects.filter(pk__in=batch).delete()[0] if batch else 0


def _find_oldest_valid_time() -> datetime:
    return timezone.now() - timedelta(days=settings.MODEL_CACHE_DAYS)


OK = "ok"


@dataclass(frozen=True, slots=True)
class Asker:
    """One question with its tenant, its handoff, its LLM, and the cache key of its answer."""

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
    """Record a call that was made.

    One transaction stores the record, the answer and the cost. If the process dies afterwards, no call is paid twice.
    """
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
    _report(row)


def record_cached(asker: Asker) -> None:
    """Record a question that cost nothing: its answer was stored, or another thread's call fetched the answer."""
    row = asker.row(OK)
    row.cached = True
    _commit(lambda: row.save(force_insert=True))
    _report(row)


def record_skipped(asker: Asker, error: Unavailable) -> None:
    """Record a question that was not asked, and the reason."""
    row = asker.row(error.reason.value, error)
    _commit(lambda: row.save(force_insert=True))
    _report(row)


def _report(row: ModelCall) -> None:
    event_log.log_llm_call(row)
    counts.add_total(Total.LLM_CALLS, "cached" if row.cached else row.outcome)
    counts.add_total(Total.LLM_MICRODOLLARS, number=round(row.cost_usd * 1e6))


def _commit(write: Callable[[], None]) -> None:
    """Write the record. Only log a database failure, because the answer is paid for and can still be used.

    If the second attempt fails, too, the reserved amount stays subtracted from the budget.
    """
    for attempt in (1, 2):
        try:
            # The record needs its own transaction, because an outer transaction could roll the record back.
            with transaction.atomic(durable=True):
                write()
        except Error as error:
            log.warning("an LLM call could not be recorded", attempt=attempt, error=str(error))
            # The connection may have broken during the call to the LLM. The second attempt opens a new connection.
            if not connection.in_atomic_block:
                connection.close()
        else:
            return


NO_KEY = "No LLM key is configured (ANTHROPIC_API_KEY)."


def is_configured() -> bool:
    """Return whether the LLM has a key, or a provider with credentials of its own."""
    return bool(settings.ANTHROPIC_API_KEY.strip()) or settings.MODEL_PROVIDER != "anthropic"


def model_for(tenant_id: int, handoff: uuid.UUID | None) -> LanguageModel:
    """Return the LLM for a tenant, with the tenant's answers, budget and records.

    The records name `handoff` as their subject.
    """
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
    """Load the libraries for questions to the LLM, so that the first question does not wait seconds for them.

    A failure is only logged, because the first question to the LLM reports the failure again.
    """
    client = build_client(
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
    """Return the caller for these settings. All threads of this process share the caller and its connections."""
    client = build_client(provider, api_key, base_url, connect_seconds=connect_seconds)
    fast, careful = models
    return build_caller(client, fast=fast, careful=careful, seconds=seconds, tries=tries) if client else None


class _Flights:
    """The questions that this process is asking now.

    If another process asks an equal question at the same time, both calls are paid, and one answer is stored.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flying: dict[Hashable, Future[Answer]] = {}

    def join(self, key: Hashable) -> "tuple[Future[Answer], bool]":
        """Return the future answer, and whether the caller must fetch the answer and call `land`."""
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
        """Return the stored or new answer to a question. Raise `Unavailable` if the LLM gives no usable answer."""
        model = self.caller.model_of(question.role)
        key = answer_key(model, question)
        asker = Asker(self.tenant_id, self.handoff, question, model, key)
        while True:
            flight, mine = _flights.join((self.tenant_id, key))
            if mine:
                return self._fetch(asker, flight)
            answer = _wait_for_flight(asker, flight)
            if answer:
                return answer

    def _fetch(self, asker: Asker, flight: "Future[Answer]") -> Answer:
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
        found = find_answer(self.tenant_id, asker.key, asker.question)
        if found:
            record_cached(asker)
            return found
        try:
            # The cost limit is checked first. Otherwise, an outage or a spent budget could be recorded as the reason,
            # although a question over its limit is never asked.
            self.caller.check_cost(asker.question)
            admitted = limits.admit(asker.model)
            reservation = self._reserve(asker, admitted)
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

    def _reserve(self, asker: Asker, admitted: Breaker) -> limits.Reservation:
        try:
            return limits.reserve(self.tenant_id, self.caller.estimate(asker.question))
        except Unavailable:
            limits.return_admission(asker.model, admitted)
            raise


def _wait_for_flight(asker: Asker, flight: "Future[Answer]") -> Answer | None:
    """Return the answer that another thread is fetching, or None if that thread failed with an unexpected error.

    Raise `Unavailable` with the reason of that thread if it got no usable answer, or could not ask the LLM.
    """
    release_connection()
    try:
        answer = flight.result()
    except Unavailable as error:
        record_skipped(asker, error)
        # Each thread raises its own exception, because threads that share an exception mix their tracebacks.
        raise Unavailable(error.reason, error.detail, retry_after=error.retry_after, status=error.status) from None
    except BaseException:  # noqa: BLE001 -- the thread that failed reports the error
        return None
    record_cached(asker)
    value = asker.question.read(answer.text)
    return Answer(value, answer.text, answer.model, answer.cost_usd, answer.latency_ms, cached=True)


def _record_in_breaker(model: str, admitted: Breaker, call: Call) -> None:
    """Record the result in the breaker. Only log a database failure, because the answer can still be used."""
    try:
        if call.error and is_outage(call.error):
            limits.record_failure(model, call.error)
        elif call.tries:
            limits.record_success(model)
        else:
            limits.return_admission(model, admitted)
    except Error as error:
        log.warning("the breaker could not record the result of an LLM call", model=model, error=str(error))
