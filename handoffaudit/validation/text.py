"""Values of a sender's document as texts that a person can read and a database can store."""

import json
import re
from collections.abc import Container, Iterable
from difflib import get_close_matches
from typing import Any

MAX_TEXT = 200
_SHOWN = 60
_COMPARED = 64
_DEEPEST = 4
_MOST_ENTRIES = 60
_CLOSE_ENOUGH = 0.5
_PLACEHOLDER = "\ufffd"
# In bits: str() refuses integers of thousands of digits.
_LONGEST_INTEGER = 190
_WORDS = {None: "null", True: "true", False: "false"}
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def storable(text: str) -> bool:
    """Return whether PostgreSQL accepts the text: no NUL character and no lone surrogate."""
    if text.isprintable():
        return True
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Return `text` with at most `limit` characters, fit to be stored.

    `…` marks the cut; characters that cannot be stored are replaced.
    """
    # Nearly all texts take this path.
    if len(text) <= limit and text.isprintable():
        return text
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if storable(text):
        return text
    return text.replace("\0", _PLACEHOLDER).encode("utf-8", "replace").decode()


def clean_or_empty(value: object, limit: int = MAX_TEXT) -> str:
    """Return the cleaned text of a field; empty where the field holds anything but a text."""
    return clean(value, limit) if isinstance(value, str) else ""


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID of 8-4-4-4-12 hexadecimal digits, in either case (RFC 9562)."""
    return _UUID.fullmatch(text) is not None


def trace_name(trace_id: str) -> str:
    """Return the name that a trace is stored under: a UUID in lower case, any other id as it was sent."""
    return trace_id.lower() if is_uuid(trace_id) else trace_id


def show(value: object) -> str:
    """Return a JSON value as messages show it: short, with quotes around a text."""
    match value:
        case str():
            flat = clean(value, _SHOWN).replace("\n", " ").replace("\r", " ").replace("\t", " ")
            return f'"{flat}"'
        case None | bool():
            return _WORDS[value]
        case dict():
            return f"an object of {pluralize(len(value), 'field')}"
        case list() | tuple():
            return f"a list of {pluralize(len(value), 'entry', 'entries')}"
        case int() if value.bit_length() > _LONGEST_INTEGER:
            return f"an integer of {value.bit_length():,} bits"
        case _:
            return clean(f"{value:.15g}" if isinstance(value, float) else str(value), _SHOWN)


def quote_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return the whole text as a JSON string to be copied; empty where that is longer than `limit`."""
    written = json.dumps(text, ensure_ascii=not storable(text)) if len(text) < limit else ""
    return written if len(written) <= limit else ""


def type_name(value: object) -> str:
    """Return the JSON type of a value, with its article."""
    match value:
        case str():
            return "a string"
        case None:
            return "null"
        case bool():
            return "a boolean"
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return "a number"


def brief(value: Any, depth: int = 0) -> Any:
    """Return `value` as a small JSON value: long texts and lists are cut, deep values described, all storable."""
    match value:
        case str():
            return clean(value)
        case dict() if depth < _DEEPEST and len(value) <= _MOST_ENTRIES:
            return {clean(str(key)): brief(item, depth + 1) for key, item in value.items()}
        case list() | tuple() if depth < _DEEPEST:
            items = [brief(item, depth + 1) for item in value[:_MOST_ENTRIES]]
            return items if len(value) <= _MOST_ENTRIES else [*items, f"… and {len(value) - _MOST_ENTRIES} more"]
        case dict() | list() | tuple():
            return show(value)
        case int() if value.bit_length() >= 64:
            return show(value)
        case _:
            return value


def closest(word: object, choices: Iterable[str]) -> str | None:
    """Return the choice most similar to `word`, or None where none is similar."""
    return next(iter(nearest(word, choices, 1)), None)


def nearest(word: object, choices: Iterable[str], most: int) -> list[str]:
    """Return at most `most` choices that are similar to `word`, the most similar first."""
    if not isinstance(word, str) or not word:
        return []
    by_folded = {choice.lower(): choice for choice in choices}
    # A hostile word may be megabytes long.
    found = get_close_matches(word[:_COMPARED].lower(), by_folded, n=most, cutoff=_CLOSE_ENOUGH)
    return [by_folded[folded] for folded in found]


def unknown_field_hint(
    name: str, known: Iterable[str], taken: Container[str], otherwise: str
) -> tuple[str, str | None]:
    """Return the hint for a field that is not known, and the name to rename it to (None: remove it).

    The name is never one of `taken`, the fields that are there already. `otherwise` is the hint where no known name is
    close.
    """
    near = closest(name, known)
    if near is None:
        return otherwise, None
    if near in taken:
        return f'Remove it: "{near}" is already there.', None
    return f'Rename it to "{near}".', near


def sentences(parts: Iterable[str]) -> str:
    """Join texts as sentences: add a full stop to each text that has no ending of its own; skip empty texts."""
    return " ".join(_ended(part) for part in map(str.strip, parts) if part)


def _ended(part: str) -> str:
    return part if part.rstrip("\"')]”»").endswith((".", "!", "?", "…", ":")) else f"{part}."


def pluralize(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: `1 agent`, `2,000 agents`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def either(choices: Iterable[str]) -> str:
    """Return the choices as `a, b or c`."""
    *head, last = choices
    return f"{', '.join(head)} or {last}" if head else last
