"""Real documents of every format with random changes, and random JSON beside them."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from hypothesis import strategies as st

from handoffaudit.validation.business_rules import (
    AnyCondition,
    BusinessRule,
    BusinessRuleSet,
    BusinessRuleType,
    Condition,
    Operator,
)
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.paths import Location

EXAMPLES = {
    path.stem: orjson.loads(path.read_bytes())
    for path in sorted((Path(__file__).parents[3] / "docs" / "examples").glob("*.json"))
}

_ODD_TEXTS = [
    *("", " ", "\0", "\ud800", "\u202e", "null", "true", "0", "1e400", "-1", "NaN", "..", "a.b", 'a"b', "*", "[0]"),
    *("12 May 2024 at 2 PM", '"three whole words" of Anna Berg', "sha256:" + "0" * 64, "2024-02-30T25:61:61Z"),
    *(
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
        "/var/../x",
        "http://[",
        "a@b.c",
        "5 %",
        "\u00b2\u0661",
    ),
    *("x" * 3_000, "9" * 500, "1." * 300, "assumption"),
]
_ODD_NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**64), 10**400, 0.1, -0.0, 1e-320, 1.7e308, 1e22, 0.5000001]
SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from(_ODD_NUMBERS)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(_ODD_TEXTS)
    | st.text(max_size=20)
)
_KEYS = st.sampled_from(["", "a", "a.b", "0", "*", "text", "source", "content", "evidence_refs", "working", "\0"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS | st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
OBJECTS = st.dictionaries(_KEYS | st.text(max_size=5), VALUES, max_size=5)
_HUGE: list[Any] = ["Ab 1,2 " * 1_000, [1] * 600, {f"k{at}": at for at in range(600)}, [{"path": ""}] * 300]


def places_of(value: Any, place: Location = ()) -> Iterator[Location]:
    """Return every place of a document, including its root."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places_of(item, (*place, key))


def _deep(value: Any, levels: int) -> Any:
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


def _changed(document: Any, place: Location, change: str, value: Any) -> Any:
    """Return the document with one change at one place."""
    if not place:
        return document if change == "delete" else {**document, "added": value}
    document = copy.deepcopy(document)
    held = document
    for part in place[:-1]:
        held = held[part]
    last = place[-1]
    match change:
        case "delete":
            del held[last]
        case "swap":
            other = next(iter(held)) if isinstance(held, dict) else 0
            held[last], held[other] = held[other], held[last]
        case "wrap":
            held[last] = [held[last]]
        case "name":
            held[last] = {str(value)[:50]: held[last]}
        case "nest":
            held[last] = _deep(held[last], 18)
        case _:
            held[last] = value
    return document


@st.composite
def broken_examples(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a documented example with up to three changes anywhere."""
    document = EXAMPLES[draw(st.sampled_from(sorted(EXAMPLES)))]
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.sampled_from(list(places_of(document))))
        change = draw(st.sampled_from(["delete", "swap", "wrap", "name", "nest", "retype", "huge"]))
        value = draw(st.sampled_from(_HUGE) if change == "huge" else VALUES)
        document = _changed(document, place, change, value)
    return document


PATHS = st.lists(
    st.sampled_from(
        ["a", "*", "text", "data", "working", "[0]", "[*]", '["a.b"]', "0", "evidence_refs", "[999999999]"]
    ),
    min_size=1,
    max_size=32,
).map(".".join)
ANY_PATH = PATHS | st.text(max_size=20) | st.integers(1, 10_000).map(lambda steps: ".".join(["a"] * steps))

CONDITIONS = st.builds(
    Condition,
    field=ANY_PATH,
    operator=st.sampled_from(Operator),
    threshold=VALUES,
    compare_field=st.none() | ANY_PATH,
)
RULES = st.builds(
    BusinessRule,
    rule_id=st.text(max_size=10),
    name=st.text(max_size=10),
    rule_type=st.sampled_from(BusinessRuleType),
    field=ANY_PATH,
    operator=st.none() | st.sampled_from(Operator),
    threshold=VALUES,
    severity=st.sampled_from(Severity),
    compare_field=st.none() | ANY_PATH,
    when=st.none() | CONDITIONS | st.builds(AnyCondition, any=st.lists(CONDITIONS, min_size=1, max_size=3)),
)
RULE_SETS = st.builds(BusinessRuleSet, set_id=st.text(max_size=5), name=st.just("s"), rules=st.lists(RULES, max_size=6))

_SCHEMA_NAMES = st.sampled_from(
    [
        *("type", "properties", "items", "anyOf", "oneOf", "allOf", "not", "if", "then", "$ref", "$defs", "$id"),
        *("enum", "const", "pattern", "patternProperties", "minimum", "multipleOf", "uniqueItems", "contains"),
        *("$dynamicRef", "$schema", "additionalProperties", "unevaluatedProperties", "required", "format", "a"),
    ]
)
_SCHEMA_VALUES = st.sampled_from(
    [
        "object",
        "string",
        "#",
        "#/$defs/a",
        "http://a/b",
        "^(a+)+$",
        "(?=a)",
        "[",
        "uuid",
        0,
        1e400,
        -1,
        True,
        False,
        None,
    ]
)
SCHEMAS = st.recursive(
    _SCHEMA_VALUES | SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_SCHEMA_NAMES, inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any, source: random.Random) -> Any:
    """Return the same JSON with its keys in another order."""
    if isinstance(value, dict):
        pairs = list(value.items())
        source.shuffle(pairs)
        return {key: shuffled(item, source) for key, item in pairs}
    return [shuffled(item, source) for item in value] if isinstance(value, list) else value
