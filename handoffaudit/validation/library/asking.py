"""What is common to questions put to a model: sizes, delimiters that cannot be closed from inside, reading answers."""

import re
from typing import Any

from handoffaudit.validation.canonical import python_compact
from handoffaudit.validation.library.masking import masked
from handoffaudit.validation.library.plain import plain
from handoffaudit.validation.reading import parse_json

LONGEST_PART = 10_000
TRUNCATED = "[truncated]"
_LONGEST_ANSWER = 200_000
_FENCE = re.compile(r"\s*```[a-zA-Z]*[ \t]*\n(.*?)\n?[ \t]*```\s*", re.DOTALL)


def as_text(value: Any, limit: int = LONGEST_PART) -> str:
    """A value as compact JSON of at most `limit` characters, without secrets; a cut is marked."""
    text = python_compact(masked(plain(value))).decode("utf-8", "replace")
    return text if len(text) <= limit else text[: limit - len(TRUNCATED)] + TRUNCATED


def fenced(tag: str, text: str) -> str:
    """`text` between tags. No text can close them: its own `<` is written as JSON's escape for it."""
    inner = text.replace("<", "\\u003c")
    return f"<{tag}>\n{inner}\n</{tag}>"


def answered_object(content: object) -> dict[str, Any] | None:
    """The JSON object that a model answered with, bare or in a code fence; None for anything else."""
    if not isinstance(content, str) or len(content) > _LONGEST_ANSWER:
        return None
    fence = _FENCE.fullmatch(content)
    body = fence.group(1) if fence else content
    value, _ = parse_json(body.strip().encode("utf-8", "replace"))
    return value if isinstance(value, dict) else None
