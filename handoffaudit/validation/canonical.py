"""JSON written so that it can be counted, hashed and compared.

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
    """No white space, keys in document order, non-ASCII characters as they are."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _dumps(value, sort_keys=False)


def canonical(value: Any) -> bytes:
    """The same with keys sorted, so that equal values have equal bytes."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return _dumps(value, sort_keys=True)


def python_compact(value: Any) -> bytes:
    """`compact` with numbers spelled as Python's json does (1.5e-07 where others write 1.5e-7)."""
    return _dumps(value, sort_keys=False)


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def data_hash(record: Record) -> str:
    """What two handoffs share when they hand over the same data."""
    return sha256_hex(canonical(record.data))


def repetition_key(record: Record) -> str:
    """The same, empty where nothing is handed over: an empty answer given twice is no loop."""
    return data_hash(record) if any(_holds(value) for value in record.data.values()) else ""


def _holds(value: Any) -> bool:
    return value not in ("", None, [], {})


def _dumps(value: Any, *, sort_keys: bool) -> bytes:
    # orjson refuses lone surrogates, integers beyond 64 bits and more than 254 levels; documents read by another
    # parser may hold them
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    return text.encode("utf-8", "surrogatepass")
