"""The messages and hints for errors of a user's JSON Schema."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from jsonschema_rs import ValidationError, ValidationErrorKind

from handoffaudit.validation.issues import Code, Issue, Severity, make
from handoffaudit.validation.json_text import TYPE_NAMES
from handoffaudit.validation.paths import Location, at, dotted_path, pointer
from handoffaudit.validation.text import clean, closest, either, pluralize, show, type_name, unknown_field_hint

SCHEMA: Final = Code(
    "schema",
    Severity.ERROR,
    "Breaks the schema of its type",
    what="The data breaks a JSON Schema that the sender gave or that is registered for the type; the code ends with "
    "the schema keyword that failed.",
    why="Your schema states what the next step needs. Data that does not match it fails in that step.",
    hint="Change the data so that it matches the schema.",
    layer="structure",
)

# For each keyword, two parts of sentences: "price is 3, <below …> 5." and "Use a number <of at least> 5."
_LIMITS = {
    "minimum": ("below the lowest allowed value,", "of at least"),
    "maximum": ("above the highest allowed value,", "of at most"),
    "exclusiveMinimum": ("which is not greater than", "greater than"),
    "exclusiveMaximum": ("which is not less than", "less than"),
}

# For each keyword, the singular and plural of what is counted, and the bound.
_COUNTED = {
    "minLength": ("character", "characters", "at least"),
    "maxLength": ("character", "characters", "at most"),
    "minItems": ("entry", "entries", "at least"),
    "maxItems": ("entry", "entries", "at most"),
    "minProperties": ("field", "fields", "at least"),
    "maxProperties": ("field", "fields", "at most"),
}

_MORE = ("is one entry too many", "Remove it.")

_UNKNOWN = ("has fields that the schema does not allow", "Remove them.")

_TOO_FEW = ("has too few entries of the required kind", "Add an entry of that kind.")

# For each keyword, the predicate of the message and the hint.
_SENTENCES = {
    "required": ("is missing", "Add {name}."),
    "dependentRequired": ("is missing, but another field requires it", "Add {name}."),
    "not": ("matches a form that the schema forbids", "Change the value so that it does not match."),
    "uniqueItems": ("has the same entry more than once", "Remove the repeated entries."),
    "contains": _TOO_FEW,
    "minContains": _TOO_FEW,
    "maxContains": ("has too many entries of one kind", "Remove some of them."),
    "propertyNames": ("is a field whose name is not allowed", "Rename the field."),
    "additionalProperties": _UNKNOWN,
    "unevaluatedProperties": _UNKNOWN,
    "items": _MORE,
    "prefixItems": _MORE,
    "unevaluatedItems": ("has more entries than the schema allows", "Remove the last entries."),
}

_NAMED_PARTS = ("properties", "patternProperties", "dependentSchemas", "$defs")

_KEYWORDS = frozenset((*_LIMITS, *_COUNTED, *_SENTENCES)) | {
    *("type", "format", "enum", "const", "multipleOf", "pattern", "allOf", "anyOf", "oneOf", "if", "then", "else"),
    *("properties", "patternProperties", "dependentSchemas", "dependencies", "$ref", "$dynamicRef"),
}

_MOST_NAMES = 50

_MOST_OPTIONS = 12

# The message, the hint and the expected value of an issue.
Explained = tuple[str, str, Any]


def explain_error(error: ValidationError, schema: Any, data: Any) -> Iterator[Issue]:
    """Yield the issues of one error: one issue, or one for each field that is not allowed."""
    place: Location = tuple(error.instance_path)
    path: Location = tuple(error.schema_path)
    rule = at(schema, path[:-1], {})
    rule = rule if isinstance(rule, dict) else {}
    value, keyword = at(data, place), _keyword(error, path)
    schema_path = pointer(path)
    names = _find_unexpected(error, keyword, rule, value)
    if names is not None:
        for name in names:
            message, hint, near = _explain_not_allowed((*place, name), rule, value)
            where = (*place, name)
            yield make(
                SCHEMA, keyword, location=where, message=message, hint=hint, expected=near, schema_path=schema_path
            )
        return
    field = getattr(error.kind, "property", None) if error.kind.name == "required" else None
    if isinstance(error.kind, ValidationErrorKind.PropertyNames):
        field = error.kind.error.instance
    if field is not None:
        place, value = (*place, field), None
    message, hint, expected = _explain(error, keyword, place, value, rule)
    yield make(
        SCHEMA,
        keyword,
        location=place,
        message=message,
        hint=hint,
        expected=expected,
        actual=value,
        schema_path=schema_path,
    )


def _keyword(error: ValidationError, path: Location) -> str:
    """Return the schema keyword that failed; for a schema that is `false`, return the keyword that holds the schema."""
    if error.kind.name == "propertyNames":
        return "propertyNames"
    if error.kind.name == "falseSchema" and len(path) > 1 and path[-2] in _NAMED_PARTS:
        return str(path[-2])
    return next((part for part in reversed(path) if part in _KEYWORDS), "false")


def _find_unexpected(error: ValidationError, keyword: str, rule: dict[str, Any], value: Any) -> list[str] | None:
    """Return the names of the fields that are not allowed, or None if the error is about something else."""
    if not isinstance(value, dict):
        return None
    if keyword == "unevaluatedProperties" and hasattr(error.kind, "unexpected"):
        return sorted(error.kind.unexpected)[:_MOST_NAMES]
    if keyword != "additionalProperties" or error.kind.name not in ("falseSchema", "additionalProperties"):
        return None
    known = rule.get("properties", {})
    named = getattr(error.kind, "unexpected", None)
    unexpected = sorted(named if named is not None else (name for name in value if name not in known))
    # Only the validator knows which of these fields match a pattern.
    return None if named is None and "patternProperties" in rule else unexpected[:_MOST_NAMES] or None


def _explain_not_allowed(place: Location, rule: dict[str, Any], value: dict[str, Any]) -> Explained:
    known = islice(rule.get("properties", {}), _MOST_NAMES)
    hint, near = unknown_field_hint(str(place[-1]), known, value, "Remove it.")
    return f"{_name(place)} is a field that the schema does not allow.", hint, near


def _name(place: Location) -> str:
    return clean(dotted_path(place)) if place else "The data"


def _explain(error: ValidationError, keyword: str, place: Location, value: Any, rule: dict[str, Any]) -> Explained:
    name, kind = _name(place), error.kind
    if keyword in _SENTENCES:
        problem, hint = _SENTENCES[keyword]
        return f"{name} {problem}.", hint.replace("{name}", name), None
    if keyword in _COUNTED:
        return _explain_count(keyword, name, value, kind)
    if keyword in _LIMITS:
        return _explain_limit(keyword, name, value, kind)
    if keyword in ("anyOf", "oneOf"):
        return _explain_forms(name, value, kind, tuple(error.instance_path))
    explain = _BY_KEYWORD.get(keyword)
    if explain is not None:
        return explain(name, value, kind, rule)
    return f"{name} ({show(value)}) is not allowed by the schema.", "Remove it, or change it.", None


def _explain_type(name: str, value: Any, kind: Any, rule: dict[str, Any]) -> Explained:
    wanted = either(TYPE_NAMES[one] for one in kind.types)
    return f"{name} is {_describe_value(value)}, not {wanted}.", f"Give {wanted}.", list(kind.types)


def _explain_count(keyword: str, name: str, value: Any, kind: Any) -> Explained:
    one, many, bound = _COUNTED[keyword]
    allowed = "are allowed" if bound == "at most" else "are required"
    hint = f"Give {bound} {pluralize(kind.limit, one, many)}."
    return f"{name} has {pluralize(len(value), one, many)}; {bound} {kind.limit} {allowed}.", hint, kind.limit


def _explain_limit(keyword: str, name: str, value: Any, kind: Any) -> Explained:
    why, wanted = _LIMITS[keyword]
    limit = _number(kind.limit)
    return f"{name} is {show(value)}, {why} {show(limit)}.", f"Use a number {wanted} {show(limit)}.", limit


def _explain_multiple(name: str, value: Any, kind: Any, rule: dict[str, Any]) -> Explained:
    of = _number(kind.multiple_of)
    return f"{name} is {show(value)}, which is not a multiple of {show(of)}.", f"Use a multiple of {show(of)}.", of


def _explain_pattern(name: str, value: Any, kind: Any, rule: dict[str, Any]) -> Explained:
    return f"{name} is {show(value)}, which does not have the required form.", _form(rule), None


def _explain_forms(name: str, value: Any, kind: Any, place: Location) -> Explained:
    if isinstance(kind, ValidationErrorKind.OneOfMultipleValid):
        message = f"{name} ({show(value)}) matches more than one form, but must match exactly one."
        return message, "Change the value so that it matches only one form.", None
    return f"{name} ({show(value)}) matches none of the allowed forms.", _nearest(kind, place), None


def _describe_value(value: Any) -> str:
    return f"{type_name(value)} ({show(value)})" if isinstance(value, str | int | float) else type_name(value)


def _explain_options(name: str, value: Any, kind: Any, rule: dict[str, Any]) -> Explained:
    options: list[Any] = kind.options if hasattr(kind, "options") else [kind.expected_value]
    texts = [show(option) for option in options[:_MOST_OPTIONS]]
    listed = ", ".join(texts) + (f" and {len(options) - _MOST_OPTIONS} more" if len(options) > _MOST_OPTIONS else "")
    near = closest(value, [option for option in options[:_MOST_NAMES] if isinstance(option, str)])
    if len(options) == 1:
        hint = f"Write {texts[0]}."
    else:
        hint = f'Use "{near}", the closest of the allowed values: {listed}.' if near else f"Use one of {listed}."
    return f"{name} is {show(value)}, not {'the' if len(options) == 1 else 'an'} allowed value.", hint, options


def _number(limit: Any) -> int | float:
    return limit if isinstance(limit, int | float) else float(limit)


def _form(rule: dict[str, Any]) -> str:
    """Return a hint with an example or the description from the schema.

    The hint does not show the regular expression, because few senders can read it.
    """
    examples, described = rule.get("examples"), rule.get("description") or rule.get("title")
    if isinstance(examples, list) and examples:
        return f"Write it as in {show(examples[0])}."
    if isinstance(described, str):
        return f"Write it as the schema describes it: {clean(described)}"
    return "Write the value in the form that the schema requires."


def _nearest(kind: Any, place: Location) -> str:
    """Return a hint that names the place to change so that the value at `place` matches the nearest form.

    A form of another type, such as null beside an object, is the furthest. Then follow forms with another fixed value,
    such as a `kind` that tells the forms apart, and then forms with more errors.
    """
    branches = [branch for branch in kind.context if branch]
    if not branches:
        return "Give the value one of the forms that the schema allows."
    first = min(branches, key=lambda branch: _distance(branch, place))[0]
    inside = tuple(first.instance_path)
    missing = getattr(first.kind, "property", None) if first.kind.name == "required" else None
    if missing is not None:
        return f"To match the nearest form, add {_name((*inside, missing))}."
    return f"To match the nearest form, change {_name(inside) if inside else 'the data'}: {clean(first.message)}."


def _distance(branch: list[ValidationError], place: Location) -> tuple[bool, int, int]:
    is_of_another_type = any(one.kind.name == "type" and tuple(one.instance_path) == place for one in branch)
    return is_of_another_type, sum(one.kind.name == "const" for one in branch), len(branch)


def _explain_format(name: str, value: Any, kind: Any, rule: dict[str, Any]) -> Explained:
    form = clean(str(rule.get("format")))
    return f"{name} is {show(value)}, which does not have the format {form}.", f"Write it as {form}.", form


_BY_KEYWORD: dict[str, Callable[[str, Any, Any, dict[str, Any]], Explained]] = {
    "type": _explain_type,
    "format": _explain_format,
    "enum": _explain_options,
    "const": _explain_options,
    "multipleOf": _explain_multiple,
    "pattern": _explain_pattern,
}
