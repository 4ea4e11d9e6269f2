"""What is checked where a format's JSON Schema cannot be had: required fields, and their types."""

from collections.abc import Iterable, Mapping
from typing import Any

from handoffaudit.validation.codes import make
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.paths import Location, at, last_name
from handoffaudit.validation.text import shown, type_name

SCHEMA_MISSING_TEXT = "Schema not found. Basic validation only."

# required fields with their JSON types; the outer ones first
Basics = Mapping[Location, str]

_ABSENT = object()
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "object": (dict,),
    "array": (list,),
    "number": (int, float),
    "boolean": (bool,),
    "any": (object,),
}
_NAMES = {"string": "a string", "object": "an object", "array": "a list", "number": "a number", "boolean": "a boolean"}


def basic_issues(name: str, document: dict[str, Any], basics: Basics) -> list[Issue]:
    """The warning that the schema is missing, and what can be said without it."""
    return [
        make("structure.schema_missing", message=SCHEMA_MISSING_TEXT, schema=name),
        *(issue for place, wanted in basics.items() for issue in _field(document, place, wanted)),
    ]


def _field(document: dict[str, Any], place: Location, wanted: str) -> Iterable[Issue]:
    if not isinstance(at(document, place[:-1]), dict):
        return  # said of the object itself
    value = at(document, place, _ABSENT)
    if value is _ABSENT:
        yield make(
            "structure.missing_field",
            location=place,
            message=f"{last_name(place)} is missing.",
            hint=f'Add "{place[-1]}".',
        )
    elif not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted == "number"):
        what = f"{type_name(value)} ({shown(value)})" if isinstance(value, str | int | float) else type_name(value)
        yield make(
            "structure.wrong_type",
            location=place,
            message=f"{last_name(place)} is {what}, not {_NAMES[wanted]}.",
            hint=f"Give {_NAMES[wanted]}.",
            expected=wanted,
            actual=value,
        )
