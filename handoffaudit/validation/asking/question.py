"""One question to a language model, its answer, and why there may be none."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

ANSWER_TOKENS = 1024


class Use(StrEnum):
    """What the model is asked for."""

    GROUNDING = "grounding"
    OBJECTIVE = "objective"
    CRITIQUE = "critique"
    REPAIR = "repair"


class Role(StrEnum):
    """Which of the configured models is asked."""

    FAST = "fast"
    CAREFUL = "careful"


class Reason(StrEnum):
    """Why there is no answer."""

    TIMEOUT = "timeout"
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    CONNECTION = "connection"
    REFUSED = "refused"
    MALFORMED_ANSWER = "malformed_answer"
    BREAKER_OPEN = "breaker_open"
    NO_KEY = "no_key"
    BUDGET = "budget"
    TOO_DEAR = "too_dear"


@dataclass(frozen=True, slots=True)
class Question:
    """`prompt` names the instructions with their version. `content` holds what agents wrote, masked and delimited.

    `schema` is the JSON Schema of the answer. `read` makes the answer's value of the model's text and raises
    `MalformedAnswer`. A question whose estimated cost is over `max_cost_usd` is not asked.
    """

    use: Use
    role: Role
    prompt: str
    instructions: str
    content: str
    schema: Mapping[str, Any]
    read: Callable[[str], Any]
    max_tokens: int = ANSWER_TOKENS
    max_cost_usd: float | None = None

    @property
    def digest(self) -> str:
        """The same for two questions that a model is sent in the same words. The version of a prompt is in its words:
        a table of prompts that was saved again with the same ones asks nothing anew."""
        sent = [self.instructions, self.content, self.schema, self.max_tokens]
        # Escaped, because a text that was cut within a character is no UTF-8.
        told = json.dumps(sent, sort_keys=True, default=dict)
        return hashlib.sha256(told.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """`value` is what the question's reader made of `text`. A cached answer cost nothing now: `cost_usd` is what it
    cost when it was asked for."""

    value: Any
    text: str
    model: str
    cost_usd: float
    latency_ms: float
    cached: bool = False


class MalformedAnswer(ValueError):
    """The model's text is not the answer that was asked for; the message says what is wrong with it, to the model
    too."""


class Unavailable(Exception):
    """No usable answer came. `detail` is one sentence for whoever reads the verdict; `retry_after` in seconds, where
    the other side said so; `status` is its HTTP status."""

    def __init__(
        self, reason: Reason, detail: str, *, retry_after: float | None = None, status: int | None = None
    ) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after
        self.status = status


class _Asked(Protocol):
    def ask(self, question: Question) -> Answer: ...


@dataclass(frozen=True, slots=True)
class NoModel:
    """In place of a model, where there is none to ask: `detail` says so to whoever reads the verdict."""

    reason: Reason
    detail: str

    def ask(self, question: Question) -> Answer:
        raise Unavailable(self.reason, self.detail)


def answered(model: _Asked, question: Callable[[], Question]) -> Answer:
    """The model's answer. A model that lets a malformed answer through had none: that is `Unavailable` as well."""
    if isinstance(model, NoModel):
        # Before the question is made: that costs as much as all other layers together.
        raise Unavailable(model.reason, model.detail)
    try:
        return model.ask(question())
    except MalformedAnswer as error:
        raise Unavailable(Reason.MALFORMED_ANSWER, str(error)) from error
