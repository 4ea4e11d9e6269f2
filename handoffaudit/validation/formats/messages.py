"""The messages and hints for errors of a format's JSON Schema."""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from jsonschema_rs import ValidationError

from handoffaudit.validation.coerce import as_utc, convert
from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import TYPE_NAMES, compact
from handoffaudit.validation.paths import Location, at, dotted_path, last_name
from handoffaudit.validation.text import closest, either, pluralize, show, type_name, unknown_field_hint

MISSING_FIELD: Final = Code(
    "structure.missing_field",
    Severity.ERROR,
    "Missing field",
    what="A field that the format requires is missing.",
    why="Every receiver relies on this field. Without it, the next agent would have to guess.",
    hint="Add the field.",
)
WRONG_TYPE: Final = Code(
    "structure.wrong_type",
    Severity.ERROR,
    "Wrong type",
    what="The value of a field does not have the JSON type that the format requires.",
    why="Code that reads the field fails on another type, or silently misreads the value.",
    hint="Convert the value to the required type.",
)
EMPTY: Final = Code(
    "structure.empty",
    Severity.ERROR,
    "Empty value",
    what="A text or list that must not be empty is empty, or a name contains only blanks.",
    why="An empty name or chain carries no more information than a missing one, so nobody can trace the handoff.",
    hint="Fill in the value.",
)
OUT_OF_RANGE: Final = Code(
    "structure.out_of_range",
    Severity.ERROR,
    "Out of range",
    what="A number is below the minimum or above the maximum.",
    why="An impossible number often has the wrong unit (17 instead of 0.17 for 17 %), and later "
    "agents treat it as correct.",
    hint="Use a number within the range.",
)
BAD_ENUM: Final = Code(
    "structure.bad_enum",
    Severity.ERROR,
    "Not an allowed value",
    what="A field with a fixed set of values has another value.",
    why="Rules, lists and filters ignore a value that the format does not define.",
    hint="Use one of the allowed values.",
)
BAD_FORMAT: Final = Code(
    "structure.bad_format",
    Severity.ERROR,
    "Wrong format",
    what="A text does not have the required form, such as a date and time, a UUID, a checksum, a URI or an id.",
    why="A time, an id or an address in another form cannot be compared, sorted or looked up.",
    hint="Write the value like the example.",
)
TOO_LONG: Final = Code(
    "structure.too_long",
    Severity.ERROR,
    "Too long",
    what="A text is longer than allowed.",
    why="Long texts crowd out important content in the receiver's context, and a later step may cut them.",
    hint='Shorten the text, or cut its end and add "...".',
)
UNKNOWN_FIELD: Final = Code(
    "structure.unknown_field",
    Severity.ERROR,
    "Unknown field",
    what="An object has a field that the format does not define.",
    why="A misspelt field has the effect of a missing field: the sender believes it was sent, and nobody reads it.",
    hint="Remove the field, or use its correct name.",
)
CODES: Final = (
    MISSING_FIELD,
    WRONG_TYPE,
    EMPTY,
    OUT_OF_RANGE,
    BAD_ENUM,
    BAD_FORMAT,
    TOO_LONG,
    UNKNOWN_FIELD,
)

Rule = dict[str, Any]

_LONGEST_FORM = 100

_MOST_MISSPELT = 50

_SEVERAL = " Send a list of handoffs to POST /api/v1/handoffs/batch."

_A_TIME = "an RFC 3339 date and time"

_FORMS = {
    "date-time": _A_TIME,
    "date-time-or-local": _A_TIME,
    "uri": "a URI",
    "trace_id": "a UUID",
}


def issues_of(error: ValidationError, schema: Rule, document: dict[str, Any]) -> Iterator[Issue]:
    """Yield the issues of one schema error: one issue, or one per unknown field."""
    report = _BY_KEYWORD[error.kind.name]
    place: Location = tuple(error.instance_path)
    yield from report(place, rule_at(schema, place), at(document, place), error.kind)


def rule_at(schema: Rule, place: Location) -> Rule:
    """Return the part of the schema that applies to `place`, empty if there is none."""
    rule = schema
    for part in place:
        if isinstance(part, int):
            rule = rule.get("items", {})
        else:
            rule = rule.get("properties", {}).get(part) or rule.get("additionalProperties") or {}
    return rule


def _name(place: Location) -> str:
    return last_name(place) or "The document"


def _example(rule: Rule) -> str:
    examples = rule.get("examples") or []
    return compact(examples[0]).decode() if examples else ""


def _format_example(rule: Rule) -> str:
    example = _example(rule)
    return f", for example {example}" if example else ""


def not_an_object(value: object) -> Issue:
    """Return the issue of a document that is JSON, but not an object."""
    return make(
        WRONG_TYPE,
        message=f"The document is {type_name(value)}, not an object.",
        hint='Send one JSON object: {"…": …}.' + (_SEVERAL if isinstance(value, list) else ""),
        expected="object",
        actual=value,
    )


def _missing_field(place: Location, rule: Rule, value: Any, kind: Any) -> Iterator[Issue]:
    name: str = kind.property
    wanted = rule.get("properties", {}).get(name, {})
    location = (*place, name)
    known = rule.get("properties", {})
    strangers = (key for key in value if key not in known and len(key) < 2 * len(name))
    misspelt = closest(name, islice(strangers, _MOST_MISSPELT))
    if misspelt:
        hint = f'Rename "{misspelt}" to "{name}", or add "{name}"{_format_example(wanted)}.'
    elif "default" in wanted:
        hint = f'Add "{name}" with its default, {compact(wanted["default"]).decode()}{_choices(wanted)}.'
    else:
        hint = f'Add "{name}"{_format_example(wanted)}.'
    suggestion = {"misspelt": misspelt} if misspelt else {"default": wanted["default"]} if "default" in wanted else {}
    message = f"{_name(location)} is missing."
    yield make(MISSING_FIELD, location=location, message=message, hint=hint, **suggestion)


def _choices(rule: Rule) -> str:
    return f" (allowed: {either(rule['enum'])})" if "enum" in rule else ""


def _wrong_type(place: Location, rule: Rule, value: Any, kind: Any) -> Iterator[Issue]:
    form = _form_of(place, rule)
    if form:
        # A number converted to text would have the right type, but not the right form.
        time = as_utc(value) if form == _A_TIME else None
        hint = f"Write it as {form}: {show(time)}." if time else f"Give {form}{_format_example(rule)}."
        yield _build_type_issue(place, kind.types, value, hint)
        return
    yield type_issue(place, kind.types, value, _format_example(rule))


def _form_of(place: Location, rule: Rule) -> str:
    """Return the form that a text at `place` must have, in words; empty if any text is allowed."""
    if "format" not in rule and "pattern" not in rule:
        return ""
    return _FORMS.get(rule.get("format", place[-1] if place else "")) or "a SHA-256 checksum"


def type_issue(
    place: Location, types: list[str], value: Any, such_as: str, *, is_convertible: bool = True, **metadata: Any
) -> Issue:
    """Return the issue that a value has none of the expected JSON types.

    `such_as` is an example with its introduction (`, for example 3`), or an empty text. `is_convertible` is False if a
    converted value would not say what the sender meant. Null is never suggested, even if the format allows null.
    """
    types = [name for name in types if name != "null"] or types
    wanted = either(TYPE_NAMES[name] for name in types)
    written = _suggest_conversion(value, types) if is_convertible else None
    hint = f"Convert it to {wanted}: {written}." if written else f"Give {wanted}{such_as}."
    return _build_type_issue(place, types, value, hint, **metadata)


def _build_type_issue(place: Location, types: list[str], value: Any, hint: str, **metadata: Any) -> Issue:
    wanted = either(TYPE_NAMES[name] for name in types)
    what = f"{type_name(value)} ({show(value)})" if isinstance(value, str | int | float) else type_name(value)
    return make(
        WRONG_TYPE,
        location=place,
        message=f"{_name(place)} is {what}, not {wanted}.",
        hint=hint,
        expected=types[0] if len(types) == 1 else types,
        actual=value,
        **metadata,
    )


def _suggest_conversion(value: Any, types: list[str]) -> str | None:
    """Return `value` converted to one of `types`, as it would be written, or None if it cannot be converted."""
    found = convert(value, types)
    if isinstance(found, list):
        return f"[{show(value)}]"
    return None if found is None else show(found)


def _empty(place: Location, rule: Rule, value: Any, kind: Any) -> Iterator[Issue]:
    if isinstance(value, list):
        message, least = f"{_name(place)} has no entries.", "at least one entry"
    else:
        message, least = f"{_name(place)} is empty.", "at least one character"
    hint = f"Give {least}{_format_example(rule)}."
    yield make(EMPTY, location=place, message=message, hint=hint, expected=least, actual=value)


def _out_of_range(place: Location, rule: Rule, value: Any, kind: Any) -> Iterator[Issue]:
    limit = kind.limit
    too_high = kind.name == "maximum"
    low, high = rule.get("minimum"), rule.get("maximum")
    extent = f"from {low:g} to {high:g}" if low is not None and high is not None else f"of at least {limit:g}"
    side = "above the highest" if too_high else "below the lowest"
    yield make(
        OUT_OF_RANGE,
        location=place,
        message=f"{_name(place)} is {show(value)}, {side} allowed value, {limit:g}.",
        hint=rule.get("x-hint") or f"Use a number {extent}; the closest one is {limit:g}.",
        expected={"minimum": low, "maximum": high},
        actual=value,
    )


def _bad_enum(place: Location, rule: Rule, value: Any, kind: Any) -> Iterator[Issue]:
    options = [kind.expected_value] if kind.name == "const" else kind.options
    texts = [show(option) for option in options]
    if not isinstance(value, str) and all(isinstance(option, str) for option in options):
        hint = f"Write {either(texts)}, in quotes."
        yield _build_type_issue(place, ["string"], value, hint)
        return
    near = closest(value, [option for option in options if isinstance(option, str)])
    suggested: dict[str, Any] = {"closest": near} if near else {}
    if len(options) == 1:
        hint = f"Write {texts[0]}."
    elif near:
        hint = f'Use "{near}", the closest of the allowed values: {", ".join(texts)}.'
    else:
        hint = f"Use one of {', '.join(texts)}."
    yield make(
        BAD_ENUM,
        location=place,
        message=f"{_name(place)} is {show(value)}, not {'the' if len(options) == 1 else 'an'} allowed value.",
        hint=hint,
        expected=options,
        actual=value,
        **suggested,
    )


def _bad_format(place: Location, rule: Rule, value: Any, kind: Any) -> Iterator[Issue]:
    form = _form_of(place, rule)
    lowered = value.lower() if len(value) <= _LONGEST_FORM else ""
    upper_only = kind.name == "pattern" and re.fullmatch(rule["pattern"], lowered)
    hint = f'Write it in lower case: "{lowered}".' if upper_only else f"Write it as in {_example(rule)}."
    yield make(
        BAD_FORMAT,
        location=place,
        message=f"{_name(place)} is {show(value)}, which is not {form}.",
        hint=hint,
        expected=form,
        actual=value,
    )


def _too_long(place: Location, rule: Rule, value: Any, kind: Any) -> Iterator[Issue]:
    limit = kind.limit
    over = len(value) - limit
    yield make(
        TOO_LONG,
        location=place,
        message=f"{_name(place)} is {pluralize(len(value), 'character')} long, {over:,} over the limit of {limit}.",
        hint=f'Shorten it, or keep its first {limit - 3} characters and add "...".',
        expected=limit,
        actual=len(value),
        cut=limit,
    )


def _unknown_field(place: Location, rule: Rule, value: Any, kind: Any) -> Iterator[Issue]:
    known = list(rule.get("properties", {}))
    for name in sorted(kind.unexpected):
        inside = dotted_path(place) or "the document"
        remove = f"Remove it; {inside} has no fields but {either(rule['properties'])}."
        hint, near = unknown_field_hint(name, known, value, remove)
        yield make(
            UNKNOWN_FIELD,
            location=(*place, name),
            message=f"{_name((*place, name))} is not a field of this format.",
            hint=hint,
            expected=near,
            actual=value.get(name),
        )


_BY_KEYWORD: dict[str, Callable[[Location, Rule, Any, Any], Iterator[Issue]]] = {
    "required": _missing_field,
    "type": _wrong_type,
    "minLength": _empty,
    "minItems": _empty,
    "minimum": _out_of_range,
    "maximum": _out_of_range,
    "enum": _bad_enum,
    "const": _bad_enum,
    "pattern": _bad_format,
    "format": _bad_format,
    "maxLength": _too_long,
    "unevaluatedProperties": _unknown_field,
}
