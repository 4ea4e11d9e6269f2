"""Calls to the LLM: one question with all its tries in one time limit, and the circuit breaker.

The breaker stops all calls for a while after several failures in a row, and then one probe decides. A breaker is an
immutable value: the caller stores the result of each transition, where all processes share it.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from handoffaudit.llm.errors import RETRIED, timed_out
from handoffaudit.validation.prompts import pricing
from handoffaudit.validation.prompts.pricing import Price
from handoffaudit.validation.prompts.question import (
    Answer,
    MalformedAnswer,
    Question,
    Reason,
    Role,
    Unavailable,
    cut_part,
)

SECONDS: Final = 60.0

TRIES: Final = 3

_FIRST_WAIT = 1.0

_LONGEST_WAIT = 16.0

# Random seconds added to the wait, so that callers do not all come back at the same moment.
_SPREAD = 1.0

_LONGEST_SHOWN_ANSWER = 20_000

# An answer with any other stop reason is incomplete.
_WHOLE = frozenset({"end_turn", "stop_sequence", "tool_use", ""})

_CUT_SHORT = {
    "max_tokens": "The answer was cut off at its longest length; answer in fewer words.",
    "model_context_window_exceeded": "The answer was cut off at its longest length; answer in fewer words.",
    "refusal": "The model declined to answer; only the JSON about the text between the tags is asked for.",
}

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. Prompt tokens count as `tokens_cached` where the service had them cached, else as `tokens_in`."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.tokens_cached + other.tokens_cached,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """The LLM's reply to one request, with the `stop_reason` as the service named it."""

    text: str
    model: str
    usage: Usage
    stop_reason: str


class Client(Protocol):
    """A client that makes one request at a time."""

    def complete(
        self,
        *,
        model: str,
        system: str,
        messages: Messages,
        schema: Mapping[str, Any],
        max_tokens: int,
        seconds: float,
    ) -> Reply:
        """Return the LLM's reply within `seconds`. Raises `Unavailable`."""
        ...


@dataclass(frozen=True, slots=True)
class Call:
    """The result of a call: an answer, or the error that prevented an answer.

    All other values cover all tries together. The tokens of a try without a reply are unknown and not included.
    """

    answer: Answer | None
    error: Unavailable | None
    model: str
    usage: Usage
    cost_usd: float
    latency_ms: float
    tries: int


@dataclass(slots=True)
class _Course:
    """The state of one call while it runs."""

    model: str
    deadline: float
    messages: Messages
    usage: Usage = field(default_factory=Usage)
    tries: int = 0
    failures: int = 0
    malformed: int = 0


class Caller:
    """A caller that asks questions through a client. Thread-safe."""

    def __init__(
        self,
        client: Client,
        models: Mapping[Role, str],
        *,
        seconds: float = SECONDS,
        tries: int = TRIES,
        prices: Mapping[str, Price] = pricing.SHIPPED,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._models = models
        self._seconds = seconds
        self._tries = tries
        self._prices = prices
        self._sleep = sleep
        self._monotonic = monotonic
        self._random = random

    def model_of(self, role: Role) -> str:
        return self._models[role]

    def estimate(self, question: Question) -> float:
        """Return about the highest cost of one try, in USD."""
        size = sum(len(text.encode("utf-8", "replace")) for text in (question.instructions, question.content))
        return pricing.estimate_call_cost(self.model_of(question.role), size, question.max_tokens, self._prices)

    def call(self, question: Question) -> Call:
        """Ask the question. An outage is stored in the call's `error`, never raised."""
        started = self._monotonic()
        course = _Course(
            self.model_of(question.role), started + self._seconds, [{"role": "user", "content": question.content}]
        )
        value, text, error = None, "", self._too_dear(question)
        if error is None:
            try:
                value, text = self._asked(question, course)
            except Unavailable as unavailable:
                error = unavailable
        latency_ms = (self._monotonic() - started) * 1000
        cost = self._cost(course)
        answer = None if error else Answer(value, text, course.model, cost, latency_ms)
        return Call(answer, error, course.model, course.usage, cost, latency_ms, course.tries)

    def _too_dear(self, question: Question) -> Unavailable | None:
        limit = question.max_cost_usd
        if limit is None or (estimate := self.estimate(question)) <= limit:
            return None
        return Unavailable(
            Reason.TOO_DEAR, f"Asking would cost about {estimate:.4f} USD, over the limit of {limit:g} USD."
        )

    def _asked(self, question: Question, course: _Course) -> tuple[Any, str]:
        while True:
            try:
                reply = self._tried(question, course)
            except Unavailable as error:
                self._wait(error, course)
                continue
            try:
                return question.read(whole(reply)), reply.text
            except MalformedAnswer as malformed:
                _show(malformed, reply, course)

    def _tried(self, question: Question, course: _Course) -> Reply:
        remaining = course.deadline - self._monotonic()
        if remaining <= 0:
            raise timed_out(self._seconds)
        course.tries += 1
        reply = self._client.complete(
            model=course.model,
            system=question.instructions,
            messages=course.messages,
            schema=question.schema,
            max_tokens=question.max_tokens,
            seconds=remaining,
        )
        course.usage += reply.usage
        return reply

    def _wait(self, error: Unavailable, course: _Course) -> None:
        """Sleep until the next try. Raises the error where no try is left, or no time for one."""
        course.failures += 1
        if error.reason not in RETRIED or course.failures >= self._tries:
            raise error
        wait = self._pause(error, course.failures)
        if self._monotonic() + wait >= course.deadline:
            raise error
        self._sleep(wait)

    def _pause(self, error: Unavailable, failures: int) -> float:
        if error.retry_after is not None:
            return error.retry_after + self._random() * _SPREAD
        return self._random() * min(_FIRST_WAIT * 2.0 ** (failures - 1), _LONGEST_WAIT)

    def _cost(self, course: _Course) -> float:
        usage = course.usage
        return pricing.cost(
            course.model,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            tokens_cached=usage.tokens_cached,
            prices=self._prices,
        )


def whole(reply: Reply) -> str:
    """Return the text of a complete reply. Raises `MalformedAnswer` for a truncated or declined one."""
    if reply.stop_reason not in _WHOLE:
        raise MalformedAnswer(_CUT_SHORT.get(reply.stop_reason, f"The answer ended with {reply.stop_reason}."))
    return reply.text


def _show(malformed: MalformedAnswer, reply: Reply, course: _Course) -> None:
    """Add the unusable answer and its error to the conversation. Raises `Unavailable` the second time."""
    course.malformed += 1
    if course.malformed > 1:
        raise Unavailable(Reason.MALFORMED_ANSWER, f"The model's answer could not be read, twice: {malformed}")
    if reply.text.strip():
        course.messages.append({"role": "assistant", "content": cut_part(reply.text, _LONGEST_SHOWN_ANSWER).rstrip()})
    course.messages.append(
        {"role": "user", "content": f"That answer cannot be used. {malformed} Answer again, with the JSON alone."}
    )


FAILURES = 5
OPEN_SECONDS = 30.0
# A probe that never reports back makes room for another probe after this many seconds.
PROBE_SECONDS = 90.0

_OUTAGES = frozenset(
    {
        Reason.TIMEOUT,
        Reason.RATE_LIMIT,
        Reason.OVERLOADED,
        Reason.SERVER_ERROR,
        Reason.CONNECTION,
        Reason.REFUSED,
    }
)
# The service refuses these requests for their content, and may answer the next request.
_OF_ONE_QUESTION = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of the breaker. Before `open_until` it admits no call, after that time one call at a time."""

    failures: int = 0
    open_until: datetime | None = None
    probing_until: datetime | None = None
    reason: str = ""

    def admit(self, now: datetime, *, probe_seconds: float = PROBE_SECONDS) -> "tuple[Breaker, bool]":
        """Return the breaker after a request for admission, and whether the call is admitted."""
        if self.open_until is None:
            return self, True
        if now < self.open_until or (self.probing_until is not None and now < self.probing_until):
            return self, False
        return replace(self, probing_until=now + timedelta(seconds=probe_seconds)), True

    def succeeded(self) -> "Breaker":
        """Return the breaker after an answer: closed, whatever the state before."""
        return Breaker()

    def failed(self, now: datetime, reason: str, *, limit: int = FAILURES, seconds: float = OPEN_SECONDS) -> "Breaker":
        """Return the breaker after a failure.

        A failed probe opens the breaker again. A failed call that began before the breaker opened does not extend the
        pause.
        """
        counted = replace(self, failures=self.failures + 1, reason=reason)
        if self.open_until is not None and now < self.open_until:
            return counted
        if self.open_until is None and counted.failures < limit:
            return counted
        return replace(counted, open_until=now + timedelta(seconds=seconds), probing_until=None)


def is_outage(error: Unavailable) -> bool:
    """Return whether the failure concerns the whole service and not only this one question."""
    return error.reason in _OUTAGES and error.status not in _OF_ONE_QUESTION
