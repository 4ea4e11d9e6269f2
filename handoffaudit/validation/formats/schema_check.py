"""The check of a document against the JSON Schema of its format, or against basic rules if the schema is missing."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import Any, Final

import jsonschema_rs
import orjson

from handoffaudit.validation.formats.messages import MISSING_FIELD, WRONG_TYPE, issues_of
from handoffaudit.validation.issues import MAX_ISSUES, Code, Issue, Severity, make
from handoffaudit.validation.json_text import compact
from handoffaudit.validation.paths import Location, at, last_name, place_order
from handoffaudit.validation.text import show, type_name
from handoffaudit.validation.times import is_date_time, is_date_time_or_local

SCHEMA_MISSING: Final = Code(
    "structure.schema_missing",
    Severity.WARNING,
    "Schema not found",
    what="The format's JSON Schema could not be read, so only required fields and their types were checked.",
    why="Without the schema file, only basic defects are found. A handoff that passes now might be rejected later.",
    hint="The sender cannot fix this. An operator should reinstall handoffaudit with its schema files.",
)

# The files of the JSON Schemas (draft 2020-12).
FOLDER: Final = Path(__file__).parent / "schemas"
SCHEMA_MISSING_TEXT = "Schema not found. Basic validation only."

# Maps each required field to its JSON type; outer fields come first.
Basics = Mapping[Location, str]

_ABSENT = object()

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "object": (dict,),
    "array": (list,),
    "number": (int, float),
    "boolean": (bool,),
    "any": (object,),
    "object or text": (dict, str, NoneType),
}

_NAMES = {
    "string": "a string",
    "object": "an object",
    "array": "a list",
    "number": "a number",
    "boolean": "a boolean",
    "object or text": "a string or an object",
}


def load_schema(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Return the JSON Schema of that name, as a separate copy for each caller.

    Raises OSError if the file of the schema cannot be read, and `orjson.JSONDecodeError` if the file is not JSON.
    """
    loaded: dict[str, Any] = orjson.loads(_load_shipped(name) if folder is FOLDER else _text(name, folder))
    return loaded


@cache
def _load_shipped(name: str) -> bytes:
    return _text(name, FOLDER)


def _text(name: str, folder: Path) -> bytes:
    return (folder / f"{name}.schema.json").read_bytes()


def basic_issues(name: str, document: dict[str, Any], basics: Basics) -> list[Issue]:
    """Return the warning that the schema is missing, and the issues that can be found without the schema."""
    return [
        make(SCHEMA_MISSING, message=SCHEMA_MISSING_TEXT, schema=name),
        *(issue for place, wanted in basics.items() for issue in _field(document, place, wanted)),
    ]


def _field(document: dict[str, Any], place: Location, wanted: str) -> Iterable[Issue]:
    if not isinstance(at(document, place[:-1]), dict):
        # The issue of the enclosing object covers this field.
        return
    value = at(document, place, _ABSENT)
    if value is _ABSENT:
        yield make(
            MISSING_FIELD,
            location=place,
            message=f"{last_name(place)} is missing.",
            hint=f'Add "{place[-1]}".',
        )
    elif not isinstance(value, _TYPES[wanted]) or (isinstance(value, bool) and wanted == "number"):
        what = f"{type_name(value)} ({show(value)})" if isinstance(value, str | int | float) else type_name(value)
        yield make(
            WRONG_TYPE,
            location=place,
            message=f"{last_name(place)} is {what}, not {_NAMES[wanted]}.",
            hint=f"Give {_NAMES[wanted]}.",
            expected=wanted,
            actual=value,
        )


_MOST_ENTRIES = 200

_FORMATS = {"date-time": is_date_time, "date-time-or-local": is_date_time_or_local}


class Shape:
    """A JSON Schema, compiled once, so that checking a valid document takes microseconds.

    If the schema file is missing or is not JSON, only `basics` are checked, and a warning says so.
    """

    def __init__(self, name: str, basics: Basics, folder: Path = FOLDER) -> None:
        self.name, self.basics = name, basics
        try:
            self._schema = load_schema(name, folder)
        except (OSError, orjson.JSONDecodeError):
            self._validator = None
            return
        self._validator = jsonschema_rs.Draft202012Validator(
            self._schema,
            formats=_FORMATS,
            validate_formats=True,
            pattern_options=jsonschema_rs.RegexOptions(),
            offline=True,
        )

    def check(self, document: dict[str, Any]) -> list[Issue]:
        """Return all issues in the order of their locations.

        If there are more than `MAX_ISSUES` issues, only the first `MAX_ISSUES + 1` are returned, so that the caller
        can tell that some are missing. Of a long list, or of a long object with arbitrary keys, only the first 200
        entries are checked for all issues. If only later entries have errors, the issues of one error are returned.
        """
        if self._validator is None:
            return basic_issues(self.name, document, self.basics)
        try:
            if self._validator.is_valid(document):
                return []
            errors = self._errors(document, self._validator)
        # jsonschema-rs cannot encode lone surrogates. `parse_json` refuses them, but a caller can use another parser.
        except UnicodeEncodeError:
            return self.check(_without_surrogates(document))
        found: dict[tuple[Location, str], Issue] = {}
        for broken in errors:
            for issue in issues_of(broken, self._schema, document):
                found.setdefault((issue.location, issue.code), issue)
                if len(found) > MAX_ISSUES:
                    return list(found.values())
        return sorted(found.values(), key=lambda issue: place_order(issue.location))

    def _errors(
        self, document: dict[str, Any], validator: jsonschema_rs.Draft202012Validator
    ) -> Iterable[jsonschema_rs.ValidationError]:
        # jsonschema-rs collects all errors before it returns the first: half a million errors would take seconds.
        errors = list(validator.iter_errors(_cut(document, self._schema)))
        if errors:
            return sorted(errors, key=_by_path)
        try:
            validator.validate(document)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []


def _cut(value: Any, rule: dict[str, Any]) -> Any:
    """Return `value` with only the first entries of the lists and objects of which the schema checks every entry."""
    if isinstance(value, list):
        item_rule = rule.get("items")
        return [_cut(item, item_rule) for item in value[:_MOST_ENTRIES]] if item_rule else value
    if not isinstance(value, dict):
        return value
    known = rule.get("properties", {})
    if "additionalProperties" in rule:
        return {key: value[key] for key in islice(sorted(value), _MOST_ENTRIES)}
    return {key: _cut(item, known[key]) if key in known else item for key, item in value.items()}


def _without_surrogates(document: dict[str, Any]) -> dict[str, Any]:
    # Only a parser other than orjson accepts lone surrogates. Such a parser may also have read integers that are larger
    # than any float, which orjson refuses.
    cleaned: dict[str, Any] = json.loads(compact(document).decode("utf-8", "replace"))
    return cleaned


def _by_path(error: jsonschema_rs.ValidationError) -> list[tuple[bool, int, str]]:
    """Return a sort key for errors that does not depend on the key order of the document."""
    return place_order((*error.instance_path, *error.schema_path))
