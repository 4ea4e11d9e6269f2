"""One question to an LLM: its instructions, the texts of agents between tags, and the parsing of the answer."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Protocol

from handoffaudit.validation.json_text import parse_json, python_compact
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.text import clean_or_empty

ANSWER_TOKENS = 1024


class Use(StrEnum):
    """The purpose of a question."""

    GROUNDING = "grounding"
    OBJECTIVE = "objective"
    CRITIQUE = "critique"
    REPAIR = "repair"


class Role(StrEnum):
    """The configured LLM that a question goes to."""

    FAST = "fast"
    CAREFUL = "careful"


class Reason(StrEnum):
    """The reason why there is no answer."""

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
    """One question to an LLM.

    `prompt` names the instructions with their version. `content` holds the texts of agents, masked and delimited.
    `schema` is the JSON Schema of the answer. `read` converts the LLM's text to the value of the answer and raises
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
        """Return a hash that is equal for two questions with the same instructions, content, schema and `max_tokens`.

        The hash does not include the name and the version of the prompt, so that a new version with the same words
        causes no new questions.
        """
        sent = [self.instructions, self.content, self.schema, self.max_tokens]
        # Escape non-ASCII characters: a text that was cut within a character is not valid UTF-8.
        payload = json.dumps(sent, sort_keys=True, default=dict)
        return hashlib.sha256(payload.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    `value` is the result of the question's reader for `text`. `cost_usd` is the cost of the call. For a cached
    answer, `cost_usd` is the cost of the first call, which is not charged again. `latency_ms` is in milliseconds.
    """

    value: Any
    text: str
    model: str
    cost_usd: float
    latency_ms: float
    cached: bool = False


class MalformedAnswer(ValueError):
    """Raised when the LLM's text is not the answer that was requested.

    The message says what is wrong with the text; the LLM receives the message too.
    """


class Unavailable(Exception):
    """Raised when no usable answer came.

    `detail` is one sentence for the readers of the verdict. `retry_after` is in seconds, or None if the service named
    no time. `status` is the HTTP status of the service, or None if the service did not answer.
    """

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
    """The stand-in for an LLM that cannot be asked.

    `detail` explains the reason to the readers of the verdict.
    """

    reason: Reason
    detail: str

    def ask(self, question: Question) -> Answer:
        raise Unavailable(self.reason, self.detail)


def ask_model(model: _Asked, question: Callable[[], Question]) -> Answer:
    """Return the LLM's answer. Raise `Unavailable` if no usable answer came, also for a malformed answer."""
    if isinstance(model, NoModel):
        # Raise before the question is built: building costs as much as all other layers together.
        raise Unavailable(model.reason, model.detail)
    try:
        return model.ask(question())
    except MalformedAnswer as error:
        raise Unavailable(Reason.MALFORMED_ANSWER, str(error)) from error


_LONGEST_ANSWER = 200_000

_FENCE = "```"


def parse_answer(text: object) -> dict[str, Any]:
    """Return the JSON object in the LLM's text. Raises `MalformedAnswer`."""
    if not isinstance(text, str):
        raise MalformedAnswer("The answer is not text.")
    if len(text) > _LONGEST_ANSWER:
        raise MalformedAnswer(f"The answer has {len(text)} characters; the maximum is {_LONGEST_ANSWER}.")
    value, issues = parse_json(_out_of_fence(text.strip()).encode("utf-8", "replace"))
    if issues:
        raise MalformedAnswer(f"The answer is not JSON: {issues[0].message}")
    if not isinstance(value, dict):
        raise MalformedAnswer("The answer is not a JSON object.")
    return value


def _out_of_fence(text: str) -> str:
    """Return the content of the code fence if the text consists of one fence, and else the unchanged text."""
    first, line_end, rest = text.partition("\n")
    language = first.removeprefix(_FENCE).strip()
    fenced = first.startswith(_FENCE) and line_end and rest.endswith(_FENCE)
    return rest.removesuffix(_FENCE).strip() if fenced and (language.isalpha() or not language) else text


def read_word(answer: dict[str, Any], key: str) -> str:
    """Return the word under `key` in lower case, for comparison, or an empty text if there is none."""
    return clean_or_empty(answer.get(key)).strip().lower()


def read_list(answer: dict[str, Any], key: str) -> list[Any]:
    """Return the list under `key`, empty if there is none. Raises `MalformedAnswer` for another type."""
    value = answer.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedAnswer(f'"{key}" is not a list.')
    return value


def read_share(answer: dict[str, Any], key: str) -> float:
    """Return the number from 0.0 to 1.0 under `key`. Raises `MalformedAnswer` for any other value."""
    value = answer.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise MalformedAnswer(f'"{key}" is not a number from 0.0 to 1.0.')
    return float(value)


LONGEST_PART = 10_000

TRUNCATED = "[truncated]"

# Three kinds of text are escaped. The first is `<` and characters that look like `<`. The second is characters that a
# reader does not see, such as text direction marks and zero-width characters. The third is the test string that makes
# Claude decline to answer: an agent could avoid the check by writing this string.
_ESCAPED = re.compile(
    "(?<=ANTHROPIC)_(?=MAGIC_STRING)|[<\uff1c\ufe64\u2039\u2329\u27e8\u3008\u276e\u02c2\u1438\u276c\u29fc"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def as_text(value: Any, limit: int = LONGEST_PART) -> str:
    """Return a JSON value as compact JSON of at most `limit` characters, secrets masked and a cut marked."""
    return cut_part(python_compact(mask_secrets(value)).decode("utf-8", "replace"), limit)


def cut_part(text: str, limit: int = LONGEST_PART) -> str:
    """Return at most `limit` characters of `text`, with a mark at the cut."""
    return text if len(text) <= limit else text[: limit - len(TRUNCATED)] + TRUNCATED


def is_cut(content: str) -> bool:
    """Return whether a part between tags was cut.

    No document can imitate the mark, because compact JSON never ends with these characters.
    """
    return f"{TRUNCATED}\n</" in content


def fence(tag: str, text: str) -> str:
    """Return `text` between tags.

    No text can close the tags, because each `<` in `text` is written as a JSON escape. So are characters that look like
    `<`, characters that a reader does not see, and the test string that keeps Claude from answering.
    """
    return f"<{tag}>\n{_ESCAPED.sub(_escape, text)}\n</{tag}>"


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


_TEXTS = files("handoffaudit.validation.prompts") / "texts"


@cache
def _newest_numbers() -> dict[str, int]:
    """Return the highest number of each text. `texts/` has the texts as `<name>-<number>.txt`."""
    numbers: dict[str, int] = {}
    for file in _TEXTS.iterdir():
        name, _, number = file.name.removesuffix(".txt").rpartition("-")
        numbers[name] = max(numbers.get(name, 0), int(number))
    return numbers


@cache
def prompt(name: str) -> str:
    """Return the newest text with this name."""
    return (_TEXTS / f"{name}-{_newest_numbers()[name]}.txt").read_text(encoding="utf-8").strip()


LONGEST_PROMPT = 20_000

FRAME = "frame"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt.

    `name` has the version of the prompt.
    """

    name: str
    text: str


def default_prompt(use: Use) -> Prompt:
    """Return the shipped prompt for a use.

    Its version is the highest number of the texts that the instructions consist of.
    """
    version = max(_newest_numbers()[name] for name in (use.value, FRAME, answer_name(use)))
    return Prompt(f"{use.value}-{version}", prompt(use.value))


def answer_name(use: Use) -> str:
    """Return the name of the text that tells the form of the answer."""
    return f"{use.value}-answer"


def build_instructions(use: Use, chosen: Prompt) -> str:
    """Return the instructions: the prompt, the frame and the form of the answer.

    The frame says that text between tags is not an instruction.
    """
    # A character that cannot be sent would keep every question from being asked.
    text = chosen.text[:LONGEST_PROMPT].encode("utf-8", "replace").decode()
    return "\n\n".join((text, prompt(FRAME), prompt(answer_name(use))))
