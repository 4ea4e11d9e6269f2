"""A JSON Schema of a user, compiled and bounded in its cost (`docs/decisions/0015-schemas-of-users.md`)."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs
import msgspec
import orjson

from handoffaudit.validation.errors import ConfigError, InvalidConfigError, config_error
from handoffaudit.validation.issues import MAX_ISSUES, Issue, Severity, limit_issues, make
from handoffaudit.validation.json_text import MAX_DEPTH, canonical, compact, deeper_than
from handoffaudit.validation.paths import Location, at, dotted_path, place_order
from handoffaudit.validation.schema_cost import DRAFT, Profile, Schema, TooCostly, levels, profile, steps
from handoffaudit.validation.schema_explanations import SCHEMA, explain_error
from handoffaudit.validation.text import clean, show, type_name

FORMAT_ASSERTION = "https://json-schema.org/draft/2020-12/vocab/format-assertion"

LARGEST = 256 * 1024

MOST_STEPS = 100_000_000
"""A step takes about 10 ns, so a check takes at most a second."""

MOST_STEPS_OF_A_VALUE = 1_000_000

LARGEST_PATTERN = 256 * 1024

_FORMAT_STEPS = 600
"""The slowest formats, `idn-hostname` and `regex`, took 6 microseconds for 16 characters in a measurement."""

# Pairs of a compiled size in bytes, and the most steps that patterns up to this size cost for 16 characters in a
# measurement.
_PATTERN_STEPS = ((4 * 1024, 300), (16 * 1024, 3_200), (LARGEST_PATTERN, 16_000))

# The limit in bytes for the values in all errors together: each error holds a copy of its value.
_MOST_COPIED = 10_000_000

_MOST_ERRORS = 100_000

# Listing the errors checks the alternatives of a schema again on each level, so it may take several times as long as
# the check alone.
_MOST_STEPS_TO_LIST = 10_000_000

# The limit in bytes for the allowed values in all errors together. Each error also holds a copy of all allowed values,
# as Python objects that are ten times as large as their text.
_MOST_CARRIED = 5_000_000

_MOST_ENTRIES = 100

_MOST_TOLD = 2_000

_BRANCHING = (b'"anyOf"', b'"oneOf"', b'"if"', b'"not"', b'"dependentSchemas"', b'"dependencies"')


@dataclass(frozen=True, slots=True)
class DataSchema:
    """A JSON Schema (draft 2020-12) for the data of a type; `DataSchema.of` refuses an invalid schema.

    With `assert_formats`, `format` is checked. Otherwise `format` is only an annotation, unless the schema itself
    demands the check with `FORMAT_ASSERTION` in its `$vocabulary`.
    """

    source: Schema
    assert_formats: bool = False

    @classmethod
    def of(cls, source: object, *, assert_formats: bool = False) -> "DataSchema":
        """Return the compiled schema.

        Raises InvalidConfigError if the schema is not valid, refers to another document, or could cost too much.
        """
        found = _compile(source, assert_formats=assert_formats)
        if not isinstance(found, _Compiled):
            raise InvalidConfigError(list(found))
        return cls(found.source, assert_formats)

    def check(self, data: Any) -> list[Issue]:
        """Return the errors of the data, sorted by place; if there are very many errors, return only the first errors.

        A flaw of the schema itself is returned as one `schema.invalid_schema` warning. Data that is too costly to
        check, or whose errors cannot be listed, gives one error that says so. Nothing is raised.
        """
        found = _compile(self.source, assert_formats=self.assert_formats)
        if not isinstance(found, _Compiled):
            return [_invalid(found[0])]
        return _check(found, data)


@dataclass(frozen=True, slots=True)
class _Compiled:
    source: Schema
    validator: jsonschema_rs.Draft202012Validator
    cost: Profile
    errors: Profile
    highest: int
    branches: bool
    choices: int


def _compile(source: object, *, assert_formats: bool) -> "_Compiled | tuple[ConfigError, ...]":
    """Return the compiled schema or its flaws, from the cache if the same schema was compiled before."""
    if not isinstance(source, dict | bool):
        message = f"The schema is {type_name(source)}, not an object, true or false."
        return (config_error("", source, message, 'Write a JSON Schema, such as {"type": "object"}.'),)
    if deeper_than(source, MAX_DEPTH):
        return (
            config_error("", None, f"The schema is nested more than {MAX_DEPTH} levels deep.", "Use $defs and $ref."),
        )
    try:
        text = canonical(source)
    except (TypeError, ValueError, RecursionError):
        return (config_error("", None, "The schema is not JSON.", "Write a JSON Schema."),)
    if len(text) > LARGEST:
        return (config_error("", None, f"The schema is larger than {LARGEST // 1024} KiB.", "Use a smaller one."),)
    return _compile_text(text, assert_formats=assert_formats)


@lru_cache(maxsize=256)
def _compile_text(text: bytes, *, assert_formats: bool) -> "_Compiled | tuple[ConfigError, ...]":
    try:
        source = orjson.loads(text)
    except orjson.JSONDecodeError:
        # The text is JSON, but orjson refuses lone surrogates.
        return (config_error("", None, "The schema contains invalid characters.", "Write it in UTF-8."),)
    try:
        _for_this_draft(source)
        checks_formats = assert_formats or _asks_for_formats(source)
        validator = _validator(source, LARGEST_PATTERN, checks_formats=checks_formats)
        format_steps = _FORMAT_STEPS if checks_formats else 0
        cost = profile(source, _steps_of_pattern, MOST_STEPS_OF_A_VALUE, format_steps)
        errors = profile(source, None)
    except jsonschema_rs.ValidationError as error:
        return (_flaw_of(error),)
    except InvalidConfigError as error:
        return tuple(error.flaws)
    except TooCostly as error:
        return (config_error("", None, str(error), error.remedy),)
    except (ValueError, RecursionError, OverflowError) as error:
        return (config_error("", None, f"The schema cannot be used: {error}.", "Simplify it."),)
    branches = any(word in text for word in _BRANCHING)
    return _Compiled(source, validator, cost, errors, max(cost), branches, _largest_choice(source))


def _asks_for_formats(source: Schema) -> bool:
    vocabulary = source.get("$vocabulary") if isinstance(source, dict) else None
    return isinstance(vocabulary, dict) and vocabulary.get(FORMAT_ASSERTION) is True


def _largest_choice(source: Schema) -> int:
    """Return the size in bytes of the largest list of allowed values."""
    largest, waiting = 0, [source]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            largest = max([largest, *(len(compact(one[key])) for key in ("enum", "const") if key in one)])
        if isinstance(one, dict | list):
            waiting.extend(one.values() if isinstance(one, dict) else one)
    return largest


def _for_this_draft(source: Schema) -> None:
    named = source.get("$schema", DRAFT) if isinstance(source, dict) else DRAFT
    if not isinstance(named, str) or named.rstrip("#") != DRAFT:
        message = f"The schema is written for {show(named)}."
        remedy = f'Write it for draft 2020-12, "$schema": "{DRAFT}".'
        raise InvalidConfigError([config_error("$schema", named, message, remedy)])


def _validator(
    source: Schema, pattern_size: int, *, checks_formats: bool = False
) -> jsonschema_rs.Draft202012Validator:
    # The default regular expression engine backtracks. `RegexOptions` selects the engine that takes linear time, so no
    # pattern runs forever. `offline` prevents the validator from fetching other documents.
    options = jsonschema_rs.RegexOptions(size_limit=pattern_size)
    return jsonschema_rs.Draft202012Validator(
        source, pattern_options=options, validate_formats=checks_formats, offline=True
    )


@lru_cache(maxsize=1024)
def _steps_of_pattern(pattern: str) -> int:
    for size, cost in _PATTERN_STEPS:
        try:
            _validator({"pattern": pattern}, size)
        except jsonschema_rs.ValidationError:
            continue
        return cost
    return _PATTERN_STEPS[-1][1]


def _flaw_of(error: jsonschema_rs.ValidationError) -> ConfigError:
    place = tuple(error.instance_path)
    if error.kind.name == "format":
        message = "The pattern is too large, or is not a supported regular expression."
        remedy = "Do not use look-around, back references, or large character classes repeated hundreds of times."
    elif error.kind.name == "$ref":
        message, remedy = "A $ref points to nothing, or outside the document.", "Put its target into $defs."
    else:
        value = error.instance
        message = f"{dotted_path(place) or 'The schema'} is {show(value)}, which JSON Schema does not allow there."
        remedy = "Follow draft 2020-12 of JSON Schema."
    return config_error(dotted_path(place), None, message, remedy)


def _invalid(found: ConfigError) -> Issue:
    place = f" At {found.place}:" if found.place else ""
    return make(
        SCHEMA,
        "invalid_schema",
        message=f"The schema cannot be used, so the data was not checked against it.{place} {found.message}",
        hint=found.remedy,
        severity=Severity.WARNING,
        schema_path=found.place,
    )


def _check(schema: _Compiled, data: Any) -> list[Issue]:
    text = compact(data)
    level_sizes: list[int] | None = None
    if len(text) * schema.highest > MOST_STEPS:
        level_sizes = levels(data)
        if steps(level_sizes, schema.cost) > MOST_STEPS:
            return [_report_too_costly(len(text))]
    try:
        if schema.validator.is_valid(data):
            return []
        errors, whole = _errors(schema, data, len(text), level_sizes)
        if not errors:
            return [_report_unlisted(len(text))]
        explained = (issue for error in errors for issue in explain_error(error, schema.source, data))
        issues = list(islice(explained, _MOST_TOLD))
    except (
        UnicodeEncodeError,
        ValueError,
        OverflowError,
    ):
        # Lone surrogates and infinite numbers come from other parsers: the product's own reader refuses such data.
        return _check(schema, _readable(text))
    return _sort_issues(issues, whole=whole)


def _errors(
    schema: _Compiled, data: Any, size: int, level_sizes: list[int] | None
) -> tuple[list[jsonschema_rs.ValidationError], bool]:
    """Return the errors of the data, and whether these are all errors.

    If the list of all errors could fill the memory, return no error for a schema with alternatives. Even one error
    would describe every alternative that was tried. For any other schema, return the errors in the first entries of
    each list and object. If these entries have no error, return only the first error.
    """
    level_sizes = level_sizes or levels(data)
    if _can_be_listed(schema, size, level_sizes):
        return list(schema.validator.iter_errors(data)), True
    if schema.branches:
        return [], False
    part = _cut(data)
    if _can_be_listed(schema, len(compact(part)), levels(part)):
        errors = list(schema.validator.iter_errors(part))
        # An error in the cut data counts only if its value was not cut itself.
        whole = [error for error in errors if _at(part, error) is _at(data, error)]
        if whole:
            return whole, False
    try:
        schema.validator.validate(data)
    except jsonschema_rs.ValidationError as error:
        return [error], False
    return [], False


def _can_be_listed(schema: _Compiled, size: int, level_sizes: list[int]) -> bool:
    copied = size * sum(schema.errors[: len(level_sizes)])
    if copied > _MOST_COPIED or sum(level_sizes) * schema.choices > _MOST_CARRIED:
        return False
    return steps(level_sizes, schema.errors) <= _MOST_ERRORS and steps(level_sizes, schema.cost) <= _MOST_STEPS_TO_LIST


def _at(data: Any, error: jsonschema_rs.ValidationError) -> Any:
    return at(data, tuple(error.instance_path))


def _cut(value: Any) -> Any:
    """Return `value` with only the first entries of each list and object; an uncut value stays the very same object."""
    if isinstance(value, list):
        items = [_cut(item) for item in value[:_MOST_ENTRIES]]
        same = len(items) == len(value) and all(one is item for one, item in zip(items, value, strict=True))
        return value if same else items
    if isinstance(value, dict):
        kept = value if len(value) <= _MOST_ENTRIES else sorted(value)[:_MOST_ENTRIES]
        fields = {key: _cut(value[key]) for key in kept}
        same = len(fields) == len(value) and all(fields[key] is item for key, item in value.items())
        return value if same else fields
    return value


def _sort_issues(issues: list[Issue], *, whole: bool) -> list[Issue]:
    found: dict[tuple[Location, str, str], Issue] = {}
    for issue in issues:
        found.setdefault((issue.location, issue.code, issue.message), issue)
    listed = limit_issues(
        sorted(found.values(), key=lambda issue: (place_order(issue.location), issue.code, issue.message)), MAX_ISSUES
    )
    if listed and not whole:
        last = listed[-1]
        message = f"{last.message} The data is large, so there may be more findings like this."
        listed[-1] = msgspec.structs.replace(last, message=message, metadata={**last.metadata, "more": True})
    return listed


def _report_too_costly(size: int) -> Issue:
    return make(
        SCHEMA,
        "too_costly",
        message=f"The data, {size:,} bytes, was not checked against its schema, because the check could take too long.",
        hint="Send less data or less deeply nested data, or use a schema with fewer alternatives and references.",
        actual=size,
    )


def _report_unlisted(size: int) -> Issue:
    return make(
        SCHEMA,
        "not_listed",
        message=f"The data, {size:,} bytes, does not match its schema. Its errors are not listed, because the schema "
        "has too many alternatives for this data.",
        hint="Check a part of the data against the schema to see the errors of that part.",
        actual=size,
    )


def _readable(text: bytes) -> Any:
    # Another parser has read the data, so the data may hold integers beyond any float, which orjson refuses.
    return json.loads(text.decode("utf-8", "replace"))


def relocate_issues(issues: list[Issue], place_of: Callable[[Location], Location]) -> Iterator[Issue]:
    """Yield the issues, each with its location in the document in place of its location in the data."""
    for issue in issues:
        yield msgspec.structs.replace(issue, location=tuple(_clean_location(place_of(issue.location))))


def _clean_location(location: Location) -> Iterator[str | int]:
    for part in location:
        yield clean(part) if isinstance(part, str) else part
