"""A model's text read defensively: bare JSON, or JSON in a code fence; anything else is malformed."""

from typing import Any

from handoffaudit.validation.asking.question import MalformedAnswer
from handoffaudit.validation.reading import parse_json
from handoffaudit.validation.text import clean_or_empty

_LONGEST_ANSWER = 200_000
_FENCE = "```"


def answered_object(text: object) -> dict[str, Any]:
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


def word(answer: dict[str, Any], key: str) -> str:
    """The word under `key`, as it is compared: in lower case. Empty where there is none."""
    return clean_or_empty(answer.get(key)).strip().lower()


def listed(answer: dict[str, Any], key: str) -> list[Any]:
    """The list under `key`, empty where there is none. Raises `MalformedAnswer` for anything else."""
    value = answer.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedAnswer(f'"{key}" is not a list.')
    return value


def share(answer: dict[str, Any], key: str) -> float:
    """The number from 0.0 to 1.0 under `key`. Raises `MalformedAnswer`."""
    value = answer.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise MalformedAnswer(f'"{key}" is not a number from 0.0 to 1.0.')
    return float(value)
