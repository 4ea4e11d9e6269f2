"""Schemas by type in words: what each asks in short, and what a version changed."""

from collections.abc import Iterable, Mapping
from typing import Any

from handoffaudit.dashboard.policies.words import Line, place, shown, shown_or_none
from handoffaudit.dashboard.readable import cut
from handoffaudit.policy.versions import WHOLE_ROW, Change

LONGEST_NAME = 60
MOST_TOLD = 6

NAMES = {
    "handoff_type": "Handoff type",
    "schema": "Schema of the data",
    "assert_formats": "Check formats",
    "claim_fields": "Claim fields",
}
HELP = {
    "handoff_type": "as senders write it, e.g. deal_data",
    "schema": "JSON Schema, draft 2020-12; empty: the data may look as it likes",
    "assert_formats": "format (date-time, email, uri and others) is checked; off: it is a note, as in JSON Schema",
    "claim_fields": "a path a line: thesis, layers.*.key_findings; empty: every text and number at the top of the data",
    "claims_nothing": "nobody asks this type for sources",
}


def asks(schema: Any) -> list[str]:
    """What a schema asks, in a few parts: its type, the required fields, how many properties and definitions it has."""
    if isinstance(schema, bool):
        return ["any data" if schema else "no data passes"]
    if not isinstance(schema, Mapping):
        return []
    kind, required, properties = schema.get("type"), schema.get("required"), schema.get("properties")
    parts = [cut(kind, LONGEST_NAME)] if isinstance(kind, str) else []
    if isinstance(required, list) and required:
        parts.append(f"requires {listed(required)}")
    if isinstance(properties, Mapping):
        parts.append(f"{len(properties)} propert{'y' if len(properties) == 1 else 'ies'}")
    if schema.get("additionalProperties") is False:
        parts.append("no others")
    return parts or ["a schema without required fields or properties"]


def listed(names: Iterable[object]) -> str:
    """The first few of them."""
    every = [str(name) for name in names]
    told = ", ".join(cut(name, LONGEST_NAME) for name in every[:MOST_TOLD])
    more = len(every) - MOST_TOLD
    return told + (f" and {more} more" if more > 0 else "")


def claims(fields: tuple[str, ...] | None) -> str:
    if fields is None:
        return "every text and number at the top"
    return listed(fields) if fields else "none"


def lines(changes: Iterable[Change]) -> list[Line]:
    return [_line(change) for change in changes]


def _line(change: Change) -> Line:
    name = cut(change.row, LONGEST_NAME)
    if change.field == WHOLE_ROW:
        return Line(name, "row", _row(change.old), _row(change.new))
    if change.field == "claim_fields":
        return Line(name, "claim fields", _claims(change.old), _claims(change.new))
    return Line(name, place(change.field), shown_or_none(change.old), shown_or_none(change.new))


def _row(plain: Any) -> str | None:
    if not isinstance(plain, Mapping):
        return shown_or_none(plain)
    parts = asks(plain["schema"])
    if plain.get("assert_formats"):
        parts.append("formats checked")
    if plain["claim_fields"] is not None:
        parts.append(f"claim fields: {_claims(plain['claim_fields'])}")
    return ", ".join(parts)


def _claims(plain: Any) -> str:
    if plain is None or isinstance(plain, list):
        return claims(None if plain is None else tuple(plain))
    return shown(plain)
