"""The language model as the product asks it: once for equal questions, within the budget, not while it is down.

No transaction may be open around `ask`, and no database connection is held while the model thinks.
"""

import threading
import uuid
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import lru_cache

import structlog
from django.conf import settings
from django.db import Error

from handoffaudit.handoffs import breaking, model_answers, model_calls, spending
from handoffaudit.handoffs.lending import lend_connection
from handoffaudit.handoffs.model_calls import Asker
from handoffaudit.llm.breaker import Breaker, is_outage
from handoffaudit.llm.calling import Call, Caller
from handoffaudit.llm.configured import caller_from, client_from
from handoffaudit.validation.asking.question import Answer, NoModel, Question, Reason, Unavailable
from handoffaudit.validation.ports import LanguageModel

log = structlog.get_logger(__name__)

NO_KEY = "No key is set for the model (ANTHROPIC_API_KEY)."


def configured() -> bool:
    """Whether there is a key, or a provider that brings its own."""
    return bool(settings.ANTHROPIC_API_KEY.strip()) or settings.MODEL_PROVIDER != "anthropic"


def model_for(tenant_id: int, handoff: uuid.UUID | None) -> LanguageModel:
    """The model, asked for a tenant: its answers, its budget, its records. `handoff` is what the records tell of."""
    caller = _caller(
        settings.MODEL_PROVIDER,
        settings.ANTHROPIC_API_KEY,
        settings.MODEL_BASE_URL,
        float(settings.MODEL_CONNECT_SECONDS),
        (settings.MODEL_FAST, settings.MODEL_CAREFUL),
        float(settings.MODEL_SECONDS),
        settings.MODEL_TRIES,
    )
    return _Model(tenant_id, handoff, caller) if caller else NoModel(Reason.NO_KEY, NO_KEY)


def prepare() -> None:
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
def _caller(
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
        key = model_answers.key_of(model, question)
        asker = Asker(self.tenant_id, self.handoff, question, model, key)
        while True:
            flight, mine = _flights.join((self.tenant_id, key))
            if mine:
                return self._fetched(asker, flight)
            answer = _awaited(asker, flight)
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
        kept = model_answers.kept(self.tenant_id, asker.key, asker.question)
        if kept:
            model_calls.record_cached(asker)
            return kept
        try:
            admitted = breaking.admit(asker.model)
            reservation = self._reserved(asker, admitted)
        except Unavailable as error:
            model_calls.record_skipped(asker, error)
            raise
        lend_connection()
        call = self.caller.call(asker.question)
        model_calls.record(asker, call, reservation)
        _tell_breaker(asker.model, admitted, call)
        if call.answer is None:
            raise call.error or AssertionError("a call ends with an answer or an error")
        return call.answer

    def _reserved(self, asker: Asker, admitted: Breaker) -> spending.Reservation:
        try:
            return spending.reserve(self.tenant_id, self.caller.estimate(asker.question))
        except Unavailable:
            breaking.not_asked(asker.model, admitted)
            raise


def _awaited(asker: Asker, flight: "Future[Answer]") -> Answer | None:
    """What another thread fetches at this moment; None where it failed for a reason of its own."""
    lend_connection()
    try:
        answer = flight.result()
    except Unavailable as error:
        model_calls.record_skipped(asker, error)
        # Its own one: threads that raise the same write their traces into each other.
        raise Unavailable(error.reason, error.detail, retry_after=error.retry_after, status=error.status) from None
    except BaseException:  # noqa: BLE001 -- told by the thread that it happened to
        return None
    model_calls.record_cached(asker)
    value = asker.question.read(answer.text)
    return Answer(value, answer.text, answer.model, answer.cost_usd, answer.latency_ms, cached=True)


def _tell_breaker(model: str, admitted: Breaker, call: Call) -> None:
    """A database that is away must not cost the answer."""
    try:
        if call.error and is_outage(call.error):
            breaking.failed(model, call.error)
        elif call.tries:
            breaking.succeeded(model)
        else:
            breaking.not_asked(model, admitted)
    except Error as error:
        log.warning("the breaker of the model could not be told", model=model, error=str(error))
