"""Calls to the LLM: each question has one time limit for all its tries, and transient failures are retried.

A circuit breaker stops all calls for a while after several failures in a row; then one call probes the service. A
breaker is an immutable value. The caller stores the result of each transition in a place that all processes share.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from handoffaudit.llm.errors import RETRYABLE, timeout_error
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

# Up to this many random seconds are added to the wait that the service asks for, so that callers do not retry at the
# same moment.
_SPREAD = 1.0

_LONGEST_SHOWN_ANSWER = 20_000

# A reply with any other stop reason is incomplete.
_COMPLETE = frozenset({"end_turn", "stop_sequence", "tool_use", ""})

_INCOMPLETE_HINTS = {
    "max_tokens": "The answer was cut off at its longest length; answer in fewer words.",
    "model_context_window_exceeded": "The answer was cut off at its longest length; answer in fewer words.",
    "refusal": "The model declined to answer; only the JSON about the text between the tags is asked for.",
}

Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a call. Cached prompt tokens count as `tokens_cached`, other prompt tokens as `tokens_in`."""

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
    """The LLM's reply to one request. `stop_reason` is the value that the service sent."""

    text: str
    model: str
    usage: Usage
    stop_reason: str


class Client(Protocol):
    """A client of the LLM service. Each call of `complete` sends one request, without retries. Thread-safe."""

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

    `usage`, `cost_usd` and `latency_ms` cover all tries. The tokens of a try without a reply are unknown and not
    included.
    """

    answer: Answer | None
    error: Unavailable | None
    model: str
    usage: Usage
    cost_usd: float
    latency_ms: float
    tries: int


@dataclass(slots=True)
class _CallState:
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
        """Estimate the highest cost of one try, in USD."""
        size = sum(len(text.encode("utf-8", "replace")) for text in (question.instructions, question.content))
        return pricing.estimate_call_cost(self.model_of(question.role), size, question.max_tokens, self._prices)

    def call(self, question: Question) -> Call:
        """Ask the question. A failure, such as an outage, is stored in the call's `error`, never raised."""
        started = self._monotonic()
        state = _CallState(
            self.model_of(question.role), started + self._seconds, [{"role": "user", "content": question.content}]
        )
        value, text, error = None, "", None
        try:
            self.check_cost(question)
            value, text = self._ask(question, state)
        except Unavailable as unavailable:
            error = unavailable
        latency_ms = (self._monotonic() - started) * 1000
        cost = self._cost(state)
        answer = None if error else Answer(value, text, state.model, cost, latency_ms)
        return Call(answer, error, state.model, state.usage, cost, latency_ms, state.tries)

    def check_cost(self, question: Question) -> None:
        """Raise `Unavailable` for a question whose estimated cost is over its limit."""
        limit = question.max_cost_usd
        if limit is not None and (estimate := self.estimate(question)) > limit:
            raise Unavailable(
                Reason.TOO_DEAR, f"Asking could cost up to {estimate:.4f} USD, over the limit of {limit:g} USD."
            )

    def _ask(self, question: Question, state: _CallState) -> tuple[Any, str]:
        while True:
            try:
                reply = self._try_once(question, state)
            except Unavailable as error:
                self._wait(error, state)
                continue
            try:
                return question.read(read_complete(reply)), reply.text
            except MalformedAnswer as malformed:
                _add_correction(malformed, reply, state)

    def _try_once(self, question: Question, state: _CallState) -> Reply:
        remaining = state.deadline - self._monotonic()
        if remaining <= 0:
            raise timeout_error(self._seconds)
        state.tries += 1
        reply = self._client.complete(
            model=state.model,
            system=question.instructions,
            messages=state.messages,
            schema=question.schema,
            max_tokens=question.max_tokens,
            seconds=remaining,
        )
        state.usage += reply.usage
        return reply

    def _wait(self, error: Unavailable, state: _CallState) -> None:
        """Sleep until the next try.

        Raises `error` if the error is not retryable, no try is left, or the next try would start after the deadline.
        """
        state.failures += 1
        if error.reason not in RETRYABLE or state.failures >= self._tries:
            raise error
        wait = self._pause(error, state.failures)
        if self._monotonic() + wait >= state.deadline:
            raise error
        self._sleep(wait)

    def _pause(self, error: Unavailable, failures: int) -> float:
        if error.retry_after is not None:
            return error.retry_after + self._random() * _SPREAD
        return self._random() * min(_FIRST_WAIT * 2.0 ** (failures - 1), _LONGEST_WAIT)

    def _cost(self, state: _CallState) -> float:
        usage = state.usage
        return pricing.cost(
            state.model,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            tokens_cached=usage.tokens_cached,
            prices=self._prices,
        )


def read_complete(reply: Reply) -> str:
    """Return the text of a complete reply. Raises `MalformedAnswer` for a truncated or declined reply."""
    if reply.stop_reason not in _COMPLETE:
        raise MalformedAnswer(_INCOMPLETE_HINTS.get(reply.stop_reason, f"The answer ended with {reply.stop_reason}."))
    return reply.text


def _add_correction(malformed: MalformedAnswer, reply: Reply, state: _CallState) -> None:
    """Add an unusable answer and its error to the conversation. Raises `Unavailable` for a second unusable answer."""
    state.malformed += 1
    if state.malformed > 1:
        raise Unavailable(
            Reason.MALFORMED_ANSWER, f"The answer of the LLM could not be read, even after a retry: {malformed}"
        )
    if reply.text.strip():
        state.messages.append({"role": "assistant", "content": cut_part(reply.text, _LONGEST_SHOWN_ANSWER).rstrip()})
    state.messages.append(
        {"role": "user", "content": f"That answer cannot be used. {malformed} Answer again, with the JSON alone."}
    )


FAILURES = 5
OPEN_SECONDS = 30.0
# If a probe reports no result for this many seconds, the breaker admits another probe.
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
# With these statuses, the service refuses a request because of its size or content. The next request may succeed.
CONTENT_STATUSES = frozenset({413, 422})
# The status 400 can also mean that the name of the LLM is wrong, or that the account has no credit.
_MAYBE_CONTENT = CONTENT_STATUSES | {400}


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of the breaker.

    While `open_until` is None, the breaker is closed and admits every call. Otherwise, it admits no call before that
    time, and afterwards one call at a time.
    """

    failures: int = 0
    open_until: datetime | None = None
    probing_until: datetime | None = None
    reason: str = ""

    def admit(self, now: datetime, *, probe_seconds: float = PROBE_SECONDS) -> "tuple[Breaker, bool]":
        """Decide whether a call may start now. Return the breaker after the decision, and whether the call may start.

        If the call is the probe, the returned breaker admits no other call for `probe_seconds`.
        """
        if self.open_until is None:
            return self, True
        if now < self.open_until or (self.probing_until is not None and now < self.probing_until):
            return self, False
        return replace(self, probing_until=now + timedelta(seconds=probe_seconds)), True

    def record_success(self) -> "Breaker":
        """Return a closed breaker, whatever the state was before the answer."""
        return Breaker()

    def record_failure(
        self, now: datetime, reason: str, *, limit: int = FAILURES, seconds: float = OPEN_SECONDS
    ) -> "Breaker":
        """Return the breaker after a failure.

        A failure during the pause does not extend the pause: its call began before the breaker opened. A failure after
        the pause opens the breaker again, even if its call was not the probe.
        """
        counted = replace(self, failures=self.failures + 1, reason=reason)
        if self.open_until is not None and now < self.open_until:
            return counted
        if self.open_until is None and counted.failures < limit:
            return counted
        return replace(counted, open_until=now + timedelta(seconds=seconds), probing_until=None)


def is_outage(error: Unavailable) -> bool:
    """Return whether the failure concerns the whole service, not only this question."""
    return error.reason in _OUTAGES and error.status not in _MAYBE_CONTENT
