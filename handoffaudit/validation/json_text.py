"""JSON text: functions that parse JSON, convert Python values to JSON types, and write JSON for hashes and counts.

>>> compact({"b": 1, "a": "é"}).decode()
'{"b":1,"a":"é"}'
>>> canonical({"b": 1, "a": "é"}).decode()
'{"a":"é","b":1}'
"""

import dataclasses
import hashlib
import json
from datetime import date
from enum import Enum
from functools import lru_cache
from itertools import takewhile
from math import isfinite
from typing import Any, Final

import msgspec
import orjson

from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import clean

JSON_PARSE: Final = Code(
    "structure.json_parse",
    Severity.ERROR,
    "Not JSON",
    what="The submission is not valid JSON, or is nested too deeply to be read.",
    why="No part of the submission can be read or checked, and the next agent could not read it either.",
    hint="Send one JSON object in UTF-8. The parser stopped at the marked place.",
)


MAX_DEPTH = 64

_BOM = b"\xef\xbb\xbf"

_AROUND = 30

_MARK = "→"

_NESTING = (dict, list)

# The shortest integers beyond 64 bits have 19 digits.
_LONG_INTEGER = b"0" * 19

_DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


def parse_json(raw: bytes, *, max_depth: int = MAX_DEPTH) -> tuple[object | None, tuple[Issue, ...]]:
    """Return the parsed value, or None and a `structure.json_parse` issue.

    A byte order mark is skipped. If a key occurs twice, its last value counts. An integer beyond 64 bits becomes a
    float, as in JavaScript. NaN, lone surrogates, bytes that are not UTF-8, and more than `max_depth` levels of lists
    and objects are errors.
    """
    body = raw.removeprefix(_BOM)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return None, (_explain_error(body, error, max_depth),)
    if could_be_deeper(body, max_depth) and deeper_than(value, max_depth):
        return None, (_too_deep(body, max_depth),)
    return value, ()


def keep_digits(raw: bytes, value: Any) -> Any:
    """Return the value of the JSON `raw` with exact integers. `parse_json` rounds integers beyond 64 bits.

    Return `value` itself if `raw` has no integer beyond 64 bits.
    """
    # This test is many times faster than parsing, and few documents have so many digits in a row.
    if _LONG_INTEGER not in raw.translate(_DIGITS_TO_ZERO):
        return value
    exact = json.loads(raw)
    try:
        orjson.dumps(exact)
    except TypeError:
        return exact
    return value


def loses_digits(raw: bytes) -> bool:
    """Return whether the JSON `raw` has an integer that `parse_json` rounds."""
    return keep_digits(raw, loses_digits) is not loses_digits


_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def split_array(raw: bytes, most: int) -> list[bytes]:
    """Return the raw bytes of the items of a JSON array, at most `most + 1` of them.

    If `most + 1` items are returned, the array has more than `most`. The limit bounds memory, because millions of items
    would take a hundred times the memory of the text. Raises `msgspec.DecodeError`, `UnicodeDecodeError` or
    `RecursionError` if the bytes are not a JSON array.
    """
    if len(raw) <= 2 * most:
        # An array of this length cannot have more than `most` items. This decoder is much faster for a few items.
        return [bytes(item) for item in _ITEMS.decode(raw)]
    items = msgspec.structs.astuple(_array_decoder(most + 1).decode(raw))
    return [bytes(item) for item in takewhile(len, items)]


@lru_cache(maxsize=8)
def _array_decoder(number: int) -> "msgspec.json.Decoder[msgspec.Struct]":
    """Return a decoder for the first `number` items of a JSON array.

    msgspec also parses the later items, but does not store them.
    """
    fields = [(f"item_{position}", msgspec.Raw, msgspec.Raw()) for position in range(number)]
    return msgspec.json.Decoder(msgspec.defstruct("Items", fields, array_like=True))


def could_be_deeper(body: bytes, limit: int) -> bool:
    return body.count(b"[") + body.count(b"{") > limit


def deeper_than(value: Any, limit: int) -> bool:
    """Return whether lists and objects are nested more than `limit` levels deep. The function does not recurse."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for parent in level
            if isinstance(parent, _NESTING)
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, _NESTING)
        ]
        if not level:
            return False
    return True


def _depth_position(body: bytes, limit: int) -> int:
    """Return the byte offset where the JSON goes one level too deep, or 0 if it never does."""
    depth = 0
    in_string = escaped = False
    for position, byte in enumerate(body):
        if in_string:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_string = False
        elif byte == 0x22:
            in_string = True
        elif byte in b"[{":
            depth += 1
            if depth > limit:
                return position
        elif byte in b"]}":
            depth -= 1
    return 0


def _explain_error(body: bytes, error: orjson.JSONDecodeError, max_depth: int) -> Issue:
    if error.msg.startswith("depth limit"):
        return _too_deep(body, max_depth)
    try:
        text = body.decode()
    except UnicodeDecodeError as bad:
        text = body.decode(errors="replace")
        position = len(body[: bad.start].decode())
        return _report_at(text, position, "the bytes here are not UTF-8", "Encode the document as UTF-8.")
    if not text.strip():
        return _report_at(text, len(text), "it is empty", "Send one JSON object.")
    return _report_at(text, error.pos, _reason(error.msg), None)


def _reason(message: str) -> str:
    """Return orjson's message in a form that fits into a sentence."""
    first, _, rest = message.partition(" ")
    return clean(message if first.isupper() else f"{first.lower()} {rest}".strip())


def _too_deep(body: bytes, max_depth: int) -> Issue:
    text = body.decode(errors="replace")
    before = body[: _depth_position(body, max_depth)]
    return _report_at(
        text,
        len(before.decode(errors="replace")),
        f"it is nested more than {max_depth} levels deep",
        f"Flatten the document to at most {max_depth} levels of lists and objects.",
        max_depth=max_depth,
    )


def _report_at(text: str, position: int, reason: str, hint: str | None, **metadata: Any) -> Issue:
    position = min(position, len(text))
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    before = _printable(text[max(0, position - _AROUND) : position])
    after = _printable(text[position : position + _AROUND])
    around = f"{before}{_MARK}{after}"
    return make(
        JSON_PARSE,
        message=f"Not readable as JSON at line {line}, column {column}: {reason}.",
        hint=hint or f"Correct the text at the mark {_MARK}: {around}",
        line=line,
        column=column,
        offset=position,
        before=before,
        after=after,
        around=around,
        **metadata,
    )


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "⏎" if char == "\n" else " " for char in text)


def too_deep() -> Issue:
    """Return the issue of a document that another parser has read and that is nested deeper than the engine allows."""
    return make(
        JSON_PARSE,
        message=f"The document is nested more than {MAX_DEPTH} levels deep.",
        hint=f"Flatten the document to at most {MAX_DEPTH} levels of lists and objects.",
        max_depth=MAX_DEPTH,
    )


def compact(value: Any) -> bytes:
    """Return the value as JSON without white space, keys in document order, non-ASCII characters unescaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _dumps(value, sort_keys=False)


def canonical(value: Any) -> bytes:
    """Return the value as compact JSON with sorted keys, so that the order of keys does not change the bytes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return _dumps(value, sort_keys=True)


def python_compact(value: Any) -> bytes:
    """Return compact JSON with numbers as Python's json writes them (1.5e-07 instead of 1.5e-7)."""
    return _dumps(value, sort_keys=False)


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def data_hash(record: Record) -> str:
    """Return the SHA-256 of the handoff's data, equal for two handoffs with the same data."""
    return sha256_hex(canonical(record.data))


# Values without data: empty values, and an empty result that a program has written as a text.
_EMPTY: Final[tuple[Any, ...]] = ("", None, [], {})
_NOTHING: Final = (*_EMPTY, "null", "None", "[]", "{}", '""')


def repetition_key(record: Record) -> str:
    """Return the hash of the handoff's data, or an empty text if all values are empty, or are empty JSON as a text.

    Repeated empty data does not count as a repetition: two different questions may have no answer.
    """
    return data_hash(record) if any(value not in _NOTHING for value in record.data.values()) else ""


def has_data(record: Record) -> bool:
    """Return whether the data has a value that is not empty."""
    # Nearly always, the first value decides.
    for value in record.data.values():  # noqa: SIM110 -- `any` with a generator takes three times as long
        if value not in _EMPTY:
            return True
    return False


def _dumps(value: Any, *, sort_keys: bool) -> bytes:
    # orjson refuses lone surrogates, integers beyond 64 bits and more than 254 levels; documents read by another parser
    # may contain them.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    return text.encode("utf-8", "surrogatepass")


# The types of JSON Schema, with their articles.
TYPE_NAMES: Final = {
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}

# In bits. Python refuses to convert an integer of more than 4,300 digits, about 14,284 bits, to text.
_LONGEST_INTEGER = 14_000


def to_json(value: Any) -> Any:
    """Return a copy of `value` in JSON types.

    Models, dataclasses, enums and times are converted. Other objects become their text. A value that JSON cannot
    express becomes null: NaN, infinity, an overlong number, or a list or dict inside itself. Half a surrogate pair
    becomes a question mark. A value that is nested too deeply for the engine is cut one level beyond the limit, so that
    the engine still detects the excess.
    """
    return _plain(value, (), MAX_DEPTH + 1)


def _plain(value: Any, inside: tuple[int, ...], left: int) -> Any:
    value = _unwrap(value)
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, int | float):
        return value if _can_be_written(value) else None
    if value is None or not left or id(value) in inside:
        return None
    inside = (*inside, id(value))
    if isinstance(value, list):
        return [_plain(one, inside, left - 1) for one in value]
    return {_key(key): _plain(one, inside, left - 1) for key, one in value.items()}


def _can_be_written(number: float) -> bool:
    return number.bit_length() <= _LONGEST_INTEGER if isinstance(number, int) else isfinite(number)


def _unwrap(value: Any) -> Any:
    """Return the outermost level of `value` in JSON types."""
    if isinstance(value, Enum):
        return _unwrap(value.value)
    if value is None or isinstance(value, str | int | float | dict | list):
        return value
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    # The attribute identifies a pydantic model. Importing pydantic would delay commands that need no model.
    if hasattr(type(value), "__pydantic_extra__"):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return value.isoformat() if isinstance(value, date) else str(value)


def _key(key: Any) -> str:
    text: str = _plain(str(_unwrap(key)), (), 1)
    return text
