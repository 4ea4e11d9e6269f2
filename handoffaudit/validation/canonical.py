"""JSON text for counting, hashing and comparing values.

>>> compact({"b": 1, "a": "é"}).decode()
'{"b":1,"a":"é"}'
>>> canonical({"b": 1, "a": "é"}).decode()
'{"a":"é","b":1}'
"""

import hashlib
import json
from typing import Any

import orjson

from handoffaudit.validation.record import Record


def compact(value: Any) -> bytes:
    """Return the value as JSON without white space, keys in document order, non-ASCII characters unescaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _dumps(value, sort_keys=False)


def canonical(value: Any) -> bytes:
    """Return the value as compact JSON with sorted keys, so that equal values have equal bytes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return _dumps(value, sort_keys=True)


def python_compact(value: Any) -> bytes:
    """Return compact JSON with numbers spelled as Python's json does (1.5e-07 where others write 1.5e-7)."""
    return _dumps(value, sort_keys=False)


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def data_hash(record: Record) -> str:
    """Return the SHA-256 of the handoff's data, equal for two handoffs with the same data."""
    return sha256_hex(canonical(record.data))


def repetition_key(record: Record) -> str:
    """Return the hash of the handoff's data; empty where no value of the data holds anything.

    An empty answer given twice is no loop.
    """
    return data_hash(record) if any(_holds(value) for value in record.data.values()) else ""


def _holds(value: Any) -> bool:
    return value not in ("", None, [], {})


def _dumps(value: Any, *, sort_keys: bool) -> bytes:
    # orjson refuses lone surrogates, integers beyond 64 bits and more than 254 levels; documents read by another parser
    # may contain them.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    return text.encode("utf-8", "surrogatepass")
