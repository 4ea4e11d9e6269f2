"""Rows of policies: their pydantic models, the parsing of plain rows into values or errors, and checks of tables.

A plain row is a row in its JSON form: a dict of the fields by the names that the API uses.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, TypeGuard, TypeVar, get_type_hints

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, create_model
from pydantic.fields import FieldInfo

from handoffaudit.validation.text import show

LONGEST_NAME = 200
LONGEST_SHOWN = 80
MOST_ERRORS = 100
MOST_BYTES = 256 * 1024

_JSON_TOKEN = re.compile(r'(?P<text>"(?:[^"\\]|\\.)*+")(?P<colon>\s*+:)?|[{}]')

G = TypeVar("G")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class PolicyError:
    """A value that cannot be saved.

    `row` is the row's name, such as its handoff type or the id of its set. `field` is empty if the whole row is wrong.
    """

    row: str
    field: str
    value: Any
    message: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.row!r}, {self.field}" if self.field else f"{self.row!r}"
        return f"{place}: {self.message} {self.remedy}"


class InvalidPolicy(Exception):
    def __init__(self, errors: list[PolicyError]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


class Wrong(ValueError):
    """The error for a value that cannot be parsed. The parser of the row turns the error into a `PolicyError`."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def brief(value: Any) -> str:
    text = show(value) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def row_name(value: Any) -> str:
    """Return the name of a row for errors, with at most `LONGEST_NAME` characters.

    Every error repeats the name, so a hundred errors about a name of a megabyte would fill the memory.
    """
    return value[:LONGEST_NAME] if isinstance(value, str) else "?"


def handoff_type(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("The row needs a handoff type.", "Write the type as senders do, e.g. deal_data.")
    if len(value) > LONGEST_NAME:
        raise Wrong(f"The name has {len(value)} characters.", f"Use at most {LONGEST_NAME}.")
    if value != value.strip() or not value.isprintable():
        raise Wrong(f"{brief(value)} begins or ends with a space, or has invisible characters.", "Remove them.")
    return value


def unknown_fields(
    row: str, given: Mapping[str, Any], known: Collection[str], remedy: Callable[[str], str] | None = None
) -> list[PolicyError]:
    """Return an error for each unknown field of a row, at most `MOST_ERRORS` of them."""
    listed = f"The fields are {', '.join(known)}."
    unknown = itertools.islice((field for field in given if field not in known), MOST_ERRORS)
    errors = []
    for field in unknown:
        shown = field[:LONGEST_NAME]
        hint = remedy(shown) if remedy else listed
        errors.append(PolicyError(row, shown, given[field], "There is no such field.", hint))
    return errors


def too_many(names: Sequence[str], most: int) -> list[PolicyError]:
    """Return an error for the last row if there are more rows than `most`."""
    if len(names) <= most:
        return []
    message = f"There are {len(names)} rows."
    return [PolicyError(names[-1], "", len(names), message, f"Keep at most {most}.")]


def model_of(name: str, row: type, **annotations: Any) -> type[BaseModel]:
    """Return the pydantic model `name`, which parses and documents the rows of a kind of policy.

    `row` is a dataclass; the metadata of its fields holds the arguments of pydantic's `Field`
    (`validation.config.describe`). `annotations` replace the types of fields that have their own parser.
    """
    types = get_type_hints(row) | annotations
    fields: dict[str, Any] = {}
    for one in dataclasses.fields(row):
        given, of_type = dict(one.metadata), types[one.name]
        if one.default is not MISSING:
            given["default"] = one.default
        elif one.default_factory is not MISSING:
            given["default_factory"] = one.default_factory
        if is_choice(of_type):
            given["strict"] = False
            of_type = Annotated[of_type, WithJsonSchema({"type": "string", "enum": list(of_type)})]
        elif of_type is float:
            # Adding zero turns -0.0, which PostgreSQL does not keep, into 0.0.
            of_type = Annotated[float, AfterValidator(lambda value: value + 0.0)]
        fields[one.name] = (of_type, Field(**given))
    config = ConfigDict(strict=True, allow_inf_nan=False)
    return create_model(name, __config__=config, **fields)


def is_choice(of_type: Any) -> TypeGuard[type[StrEnum]]:
    return isinstance(of_type, type) and issubclass(of_type, StrEnum)


def is_amount(name: str) -> bool:
    """Return whether a field is an amount in US dollars."""
    return name.endswith("_usd")


@cache
def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by their names in a plain row."""
    return {one.alias or name: one for name, one in model.model_fields.items()}


def to_plain(row: object) -> dict[str, Any]:
    """Return the fields of a row, which is a dataclass, by their names in a plain row."""
    kind: Any = type(row)
    return {name: _convert_to_plain(getattr(row, attribute)) for name, attribute in plain_names(kind).items()}


@cache
def plain_names(row: type) -> dict[str, str]:
    """Return the attributes of a dataclass by their names in a plain row."""
    return {one.metadata.get("alias", one.name): one.name for one in dataclasses.fields(row)}


def _convert_to_plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def read_row(
    model: type[BaseModel], row: str, given: Mapping[str, Any], remedy: Callable[[str], str] | None = None
) -> dict[str, Any]:
    """Return the parsed values of the fields that a plain row has. Raise `InvalidPolicy` with an error for each flaw.

    Flaws are invalid values, missing required fields and unknown fields. `row` is the name of the row in errors.
    `remedy` returns the remedy for an unknown field; without `remedy`, the error lists the known fields.
    """
    fields = fields_of(model)
    errors = unknown_fields(row, given, fields, remedy)
    # A missing required field is refused in the same way as null.
    known = {name: given.get(name) for name, field in fields.items() if name in given or field.is_required()}
    found = None
    try:
        found = model.model_validate(known)
    except ValidationError as invalid:
        for one in invalid.errors(include_url=False, include_input=False):
            name = str(one["loc"][0])
            own = one.get("ctx", {}).get("error")
            wrong = own if isinstance(own, Wrong) else _explain(name, fields[name], known[name])
            errors.append(PolicyError(row, name, known[name], wrong.message, wrong.remedy))
    if errors or found is None:
        raise InvalidPolicy(errors)
    return {name: getattr(found, name) for name in found.model_fields_set}


def _explain(name: str, field: FieldInfo, value: Any) -> Wrong:
    """Return why pydantic refused a value, in the wording of the other policy errors."""
    of_type, shown = field.annotation, brief(value)
    if is_choice(of_type):
        return Wrong(f"{shown} is not one of the choices.", f"Choose one of {', '.join(of_type)}.")
    if of_type is bool:
        return Wrong(f"{shown} is neither on nor off.", "Write true or false.")
    low, high = limits_of(field)
    if of_type is int:
        return explain_whole(value, low, high)
    if is_amount(name):
        text = f"a number from {low:,} to {high:,.0f}"
        return Wrong(f"{shown} is not {text}.", "Write the amount in US dollars, with digits only.")
    return Wrong(f"{shown} is not a number from {low} to {high}.", "Use such a number, e.g. 0.5.")


def explain_whole(value: Any, low: int, high: int) -> Wrong:
    wrong = "is out of range" if is_whole(value) else "is not a whole number"
    return Wrong(f"{brief(value)} {wrong}.", f"Use a whole number from {low} to {high:,}.")


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def limits_of(field: FieldInfo) -> tuple[Any, Any]:
    """Return the lowest and the highest value that a number field allows."""
    found = {name: getattr(one, name) for one in field.metadata for name in ("ge", "le") if hasattr(one, name)}
    return found["ge"], found["le"]


def read_all(given: Iterable[G], read: Callable[[G], R]) -> list[R]:
    """Read every row. Raise one `InvalidPolicy` with the first `MOST_ERRORS` errors of all rows."""
    rows: list[R] = []
    errors: list[PolicyError] = []
    for one in given:
        try:
            rows.append(read(one))
        except InvalidPolicy as invalid:
            errors.extend(invalid.errors)
        if len(errors) >= MOST_ERRORS:
            break
    if errors:
        raise InvalidPolicy(errors[:MOST_ERRORS])
    return rows


def find_repeated(names: Iterable[str], what: str) -> list[PolicyError]:
    """Return an error for each name that occurs more than once; `what` is the noun for the name in the message."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    message = f"The {what} has two rows."
    return [PolicyError(name, "", name, message, "Keep one of them.") for name in list(twice)[:MOST_ERRORS]]


def too_large(rows: Mapping[str, Any]) -> list[PolicyError]:
    """Return an error if all rows together are larger than a version may be; `rows` maps names to plain rows."""
    sizes = {name: len(orjson.dumps(row)) for name, row in rows.items()}
    total = sum(sizes.values())
    if total <= MOST_BYTES:
        return []
    largest = max(sizes, key=lambda name: sizes[name])
    message = f"All rows together have {total:,} bytes as JSON, this row has {sizes[largest]:,}."
    return [PolicyError(largest, "", None, message, f"Use at most {MOST_BYTES:,} bytes for all rows.")]


def check_table(
    rows: Iterable[R], noun: str, most: int, name_of: Callable[[R], str], plain: Callable[[R], Any] = to_plain
) -> tuple[R, ...]:
    """Return the rows. Raise `InvalidPolicy` for repeated names, too many rows, or too much data."""
    table = tuple(rows)
    names = [name_of(row) for row in table]
    errors = find_repeated(names, noun)
    errors += too_many(names, most)
    errors += too_large({name: plain(row) for name, row in zip(names, table, strict=True)})
    if errors:
        raise InvalidPolicy(errors)
    return table


def complete_table(rows: Iterable[R], noun: str, defaults: Sequence[R], name_of: Callable[[R], str]) -> tuple[R, ...]:
    """Return the rows in the order of `defaults`, with the default for each missing row.

    Raise `InvalidPolicy` if a row is given twice.
    """
    table = list(rows)
    errors = find_repeated((name_of(row) for row in table), noun)
    if errors:
        raise InvalidPolicy(errors)
    by_name = {name_of(row): row for row in (*defaults, *table)}
    return tuple(by_name[name_of(row)] for row in defaults)


def can_be_kept(value: Any) -> None:
    """Raise `Wrong` if a value from a form or a file cannot be written as JSON and read back unchanged."""
    try:
        same = orjson.loads(orjson.dumps(value)) == value
    except (TypeError, orjson.JSONDecodeError) as error:
        remedy = "Use numbers of at most 64 bits, text in Unicode, and fewer levels of nesting."
        raise Wrong(f"The value cannot be stored as JSON: {error}.", remedy) from error
    if not same:
        raise Wrong("The value contains a number that JSON does not have.", "Use finite numbers.")


def check_keys(text: str) -> None:
    """Raise `ValueError` if an object of `text`, which is JSON, has a key twice: the first value would be lost."""
    keys_of_open: list[set[str]] = []
    for token in _JSON_TOKEN.finditer(text):
        if token[0] == "{":
            keys_of_open.append(set())
        elif token[0] == "}":
            keys_of_open.pop()
        elif token["colon"]:
            key = json.loads(token["text"])
            if key in keys_of_open[-1]:
                line = text.count("\n", 0, token.start()) + 1
                raise ValueError(f"Line {line}: the key {show(key)} is there twice in one object.")
            keys_of_open[-1].add(key)
