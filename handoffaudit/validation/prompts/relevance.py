"""The selection of the parts of a long context for a question: the parts that share the most words with the data."""

import re
from typing import Any

from handoffaudit.validation.json_text import compact
from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.question import (
    LONGEST_PART,
    TRUNCATED,
    as_text,
    cut_part,
)

# A level with more parts is divided into bundles of neighbours.
_MOST_PARTS = 400

_DEEPEST = 12

# The most characters of a part that are compared.
_COMPARED = 20_000

# Less room than this is too small for a part of a value.
_LEAST_ROOM = 200

_SHORTEST_WORD = 3

_WORD = re.compile(r"\w+(?:[.,:-]\w+)*")

_BREAKS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?;]) "))


def select_relevant(context: Any, data: Any, limit: int = LONGEST_PART) -> str:
    """Return the context as text of at most `limit` characters.

    A longer context is reduced to the parts that share the most words and numbers with the data. A mark at the end
    shows the cut. Parts are the fields of an object, the entries of a list and the paragraphs of a text. Only parts of
    the same level compete.
    """
    # Secrets are masked before the cut. A part of a secret, or a secret without its name, would not be recognised.
    context = mask_secrets(context)
    if _size(context) <= limit:
        return as_text(context, limit)
    room = limit - len(TRUNCATED)
    text = as_text(_fit(context, frozenset(_words(as_text(data))), room, _DEEPEST), room)
    return text if text.endswith(TRUNCATED) else text + TRUNCATED


def _fit(value: Any, wanted: frozenset[str], room: int, deepest: int) -> Any:
    """Return the part of `value` that fits into `room` characters, the most relevant first."""
    if _size(value) <= room:
        return value
    if isinstance(value, str):
        return _fit_text(value, wanted, room)
    parts = _parts(value) if deepest else []
    taken: list[Any] = []
    for part in sorted(parts, key=lambda part: -_count_shared_words(part, wanted)):
        size = _size(part)
        if size <= room:
            taken.append(part)
            room -= size
        elif room >= _LEAST_ROOM:
            taken.append(_narrow(part, wanted, room, deepest - 1))
            break
    if isinstance(value, dict):
        return {key: inner for part in taken for key, inner in part.items()}
    return [entry for part in taken for entry in part] if isinstance(value, list) else None


def _narrow(part: Any, wanted: frozenset[str], room: int, deepest: int) -> Any:
    """Return the best parts of a bundle that is too long, or the best content of a single part that is too long."""
    if len(part) > 1:
        return _fit(part, wanted, room, deepest)
    if isinstance(part, list):
        return [_fit(part[0], wanted, room, deepest)]
    ((key, value),) = part.items()
    return {key: _fit(value, wanted, room - _size(key), deepest)}


def _fit_text(text: str, wanted: frozenset[str], room: int) -> str:
    taken: list[str] = []
    for part in sorted(_paragraphs(text), key=lambda part: -_count_shared_words(part, wanted)):
        if len(part) > room:
            taken.append(cut_part(part, room) if room > len(TRUNCATED) else "")
            break
        taken.append(part)
        room -= len(part) + 1
    return "\n".join(taken)


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, or its lines or sentences if the text has a single paragraph."""
    found = next((parts for split in _BREAKS if len(parts := split.split(text)) > 1), [text])
    bundled = ["\n".join(bundle) for bundle in _bundles(found)]
    return [part for part in bundled if part]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [dict(bundle) for bundle in _bundles(list(value.items()))]
    return _bundles(value) if isinstance(value, list) else []


def _bundles(parts: list[Any]) -> list[list[Any]]:
    """Return bundles of neighbouring parts, at most `_MOST_PARTS` bundles."""
    each = -(-len(parts) // _MOST_PARTS) or 1
    return [parts[start : start + each] for start in range(0, len(parts), each)]


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(_text(value))


def _count_shared_words(part: Any, wanted: frozenset[str]) -> int:
    """Count the wanted words in the part. A number counts as two words."""
    found = wanted.intersection(_words(_text(part)[:_COMPARED]))
    return len(found) + sum(1 for word in found if word[0].isdecimal())


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if len(word) >= _SHORTEST_WORD or word[0].isdecimal()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value).decode("utf-8", "replace")
