"""Changes of a policy as the audit log keeps them: so many, and none at length. The versions hold all of it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from handoffaudit.policy.difference import Change

MOST_CHANGES = 100
LONGEST_VALUE = 2000
# From here on a JSON column of PostgreSQL gives a number back as another one, and the log's hash would not fit.
LARGEST = 2**53


def told(changes: Sequence[Change]) -> dict[str, Any]:
    """`changes` as plain values; `more`: how many were left out."""
    kept = [_kept(change.to_plain()) for change in changes[:MOST_CHANGES]]
    more = len(changes) - len(kept)
    return {"changes": kept} | ({"more": more} if more else {})


def _kept(change: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in change.items()}


def _value(value: Any) -> Any:
    text = orjson.dumps(value).decode()
    if len(text) <= LONGEST_VALUE and _stays(value):
        return value
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _stays(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_stays(key) and _stays(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(_stays(inner) for inner in value)
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) < LARGEST and not (value == 0 and math.copysign(1, value) < 0)
    return not isinstance(value, int) or abs(value) <= LARGEST
