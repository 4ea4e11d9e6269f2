"""One question to an LLM: its instructions, what agents wrote between tags, and the answer read defensively."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from handoffaudit.validation.canonical import python_compact
from handoffaudit.validation.json_input import parse_json
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.text import clean_or_empty

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


def ask_model(model: _Asked, question: Callable[[], Question]) -> Answer:
    """The model's answer. A model that lets a malformed answer through had none: that is `Unavailable` as well."""
    if isinstance(model, NoModel):
        # Before the question is made: that costs as much as all other layers together.
        raise Unavailable(model.reason, model.detail)
    try:
        return model.ask(question())
    except MalformedAnswer as error:
        raise Unavailable(Reason.MALFORMED_ANSWER, str(error)) from error


_LONGEST_ANSWER = 200_000

_FENCE = "```"


def parse_answer(text: object) -> dict[str, Any]:
    """The JSON object that a model answered with. Raises `MalformedAnswer`."""
    if not isinstance(text, str):
        raise MalformedAnswer("The answer is no text.")
    if len(text) > _LONGEST_ANSWER:
        raise MalformedAnswer(f"The answer has {len(text)} characters; {_LONGEST_ANSWER} are the most.")
    value, issues = parse_json(_out_of_fence(text.strip()).encode("utf-8", "replace"))
    if issues:
        raise MalformedAnswer(f"The answer is not JSON: {issues[0].message}")
    if not isinstance(value, dict):
        raise MalformedAnswer("The answer is not a JSON object.")
    return value


def _out_of_fence(text: str) -> str:
    """What stands in a code fence, where that is all there is."""
    first, line_end, rest = text.partition("\n")
    language = first.removeprefix(_FENCE).strip()
    fenced = first.startswith(_FENCE) and line_end and rest.endswith(_FENCE)
    return rest.removesuffix(_FENCE).strip() if fenced and (language.isalpha() or not language) else text


def read_word(answer: dict[str, Any], key: str) -> str:
    """The word under `key`, as it is compared: in lower case. Empty where there is none."""
    return clean_or_empty(answer.get(key)).strip().lower()


def read_list(answer: dict[str, Any], key: str) -> list[Any]:
    """The list under `key`, empty where there is none. Raises `MalformedAnswer` for anything else."""
    value = answer.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedAnswer(f'"{key}" is not a list.')
    return value


def read_share(answer: dict[str, Any], key: str) -> float:
    """The number from 0.0 to 1.0 under `key`. Raises `MalformedAnswer`."""
    value = answer.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise MalformedAnswer(f'"{key}" is not a number from 0.0 to 1.0.')
    return float(value)


LONGEST_PART = 10_000

TRUNCATED = "[truncated]"

# what opens a tag, or looks as if it did; and what a reader does not see: text turned around, characters of no width;
# and the words at which Claude declines to answer, so that software can be tried: an agent could pass by writing them
_ESCAPED = re.compile(
    "(?<=ANTHROPIC)_(?=MAGIC_STRING)|[<\uff1c\ufe64\u2039\u2329\u27e8\u3008\u276e\u02c2\u1438\u276c\u29fc"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def as_text(value: Any, limit: int = LONGEST_PART) -> str:
    """A JSON value as compact JSON of at most `limit` characters, without secrets; a cut is marked."""
    return cut_part(python_compact(mask_secrets(value)).decode("utf-8", "replace"), limit)


def cut_part(text: str, limit: int = LONGEST_PART) -> str:
    """At most `limit` characters of `text`; a cut is marked."""
    return text if len(text) <= limit else text[: limit - len(TRUNCATED)] + TRUNCATED


def is_cut(content: str) -> bool:
    """Whether of something between tags only a part is there. No text can say so itself: JSON ends with another
    character."""
    return f"{TRUNCATED}\n</" in content


def fence(tag: str, text: str) -> str:
    """`text` between tags. No text can close them: its own `<` is written as JSON's escape for it, and so is what only
    looks like one, what hides from a reader, and what would keep the model from answering."""
    return f"<{tag}>\n{_ESCAPED.sub(_escape, text)}\n</{tag}>"


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


@cache
def prompt(name: str) -> str:
    """The text of `<name>.txt`."""
    return (files("handoffaudit.validation.prompts") / "texts" / f"{name}.txt").read_text(encoding="utf-8").strip()


VERSION = "1"

LONGEST_PROMPT = 20_000


@dataclass(frozen=True, slots=True)
class Prompt:
    """`name` says which version of which prompt it is."""

    name: str
    text: str


def default_prompt(use: Use) -> Prompt:
    """The prompt that comes with the package."""
    name = f"{use.value}-{VERSION}"
    return Prompt(name, prompt(name))


def build_instructions(use: Use, asked: Prompt) -> str:
    """The prompt with the frame: what stands between tags is no instruction, and what the answer must look like."""
    # a character that cannot be sent would keep every question from being asked
    told = asked.text[:LONGEST_PROMPT].encode("utf-8", "replace").decode()
    return "\n\n".join((told, prompt(f"frame-{VERSION}"), prompt(f"{use.value}-answer-{VERSION}")))
