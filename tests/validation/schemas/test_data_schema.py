"""Tests of schemas of users: rejected schemas, messages, and the time of the worst schemas."""

from typing import Any

import pytest

from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.errors import InvalidConfigError
from tests.elapsed import BOUNDED, cpu_seconds


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def nested(depth: int, value: Any = 1) -> Any:
    for _ in range(depth):
        value = {"a": value}
    return value


def unevaluated(depth: int) -> dict[str, Any]:
    inner = unevaluated(depth - 1) if depth else {"properties": {"a": True}}
    return {"allOf": [inner], "unevaluatedProperties": {"type": "integer"}}


DOUBLING = {"$defs": {**{f"a{n}": {"allOf": [ref(f"a{n + 1}")] * 2} for n in range(40)}, "a40": {}}, **ref("a0")}
DEPENDING = {
    "$defs": {f"a{n}": {"dependencies": dict.fromkeys("ab", ref(f"a{n + 1}"))} for n in range(40)} | {"a40": {}},
    **ref("a0"),
}
OLDER_PART = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/x", "items": [False]}
TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"type": "string"}},
}
BRANCHING = {
    "$defs": {"n": {"anyOf": [{"properties": {"a": ref("n")}, "required": ["z"]}, {"properties": {"a": ref("n")}}]}},
    **ref("n"),
}


@pytest.mark.parametrize(
    "source",
    [
        3,
        "text",
        {"type": "strng"},
        {"minimum": "3"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#/$defs/missing"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"pattern": "("},
        {"pattern": "(?=a)a"},
        {"pattern": "[ab]{100000}"},
        {"$ref": "#"},
        {"anyOf": [{"$ref": "#"}, {}]},
        DOUBLING,
        DEPENDING,
        {"$defs": {"x": OLDER_PART}, "$ref": "https://example.com/x"},
        unevaluated(25),
        {"enum": list(range(100_000))},
        {"allOf": [{"title": "x"}] * 100_000},
        nested(100, {}),
    ],
    ids=lambda source: str(source)[:40],
)
def test_what_cannot_be_used_is_refused_at_once(source: Any) -> None:
    def refuse() -> None:
        with pytest.raises(InvalidConfigError) as told:
            DataSchema.of(source)
        assert all(flaw.message and flaw.remedy for flaw in told.value.flaws)
        (issue,) = DataSchema(source).check({})
        assert (issue.code, issue.severity) == ("schema.invalid_schema", "warning")

    assert cpu_seconds(refuse) < BOUNDED


@pytest.mark.parametrize(
    ("schema", "data", "code"),
    [
        (BRANCHING, nested(60), "schema.too_costly"),
        ({"pattern": r"(?:\w{1,20}a\w{1,20}){20}[xyz]"}, "ab" * 500_000, "schema.too_costly"),
        ({"items": {"enum": [[n] for n in range(1_000)]}}, [[999]] * 20_000, "schema.too_costly"),
        ({"items": {"type": "string"}}, list(range(200_000)), "schema.type"),
        ({"allOf": [{"type": "string"}] * 300}, {"a": "x" * 1_000_000}, "schema.type"),
        ({"required": [f"z{n}" for n in range(5_000)]}, {f"p{n}": 0 for n in range(20_000)}, "schema.required"),
        ({"items": {"anyOf": [{"type": "string"}] * 20}}, list(range(20_000)), "schema.not_listed"),
        ({"propertyNames": {"pattern": "^[a-z]+$"}}, {f"p{n}": 0 for n in range(50_000)}, "schema.propertyNames"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_worst_data_takes_bounded_time(schema: Any, data: Any, code: str) -> None:
    issues = []
    assert cpu_seconds(lambda: issues.extend(DataSchema.of(schema).check(data))) < BOUNDED
    assert {issue.code for issue in issues} == {code}
    assert len(issues) <= 100


def test_large_data_is_checked_against_an_everyday_schema() -> None:
    row = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "pattern": r"^[a-z]+\d+$"}}}
    schema = DataSchema.of({"type": "object", "properties": {"rows": {"type": "array", "items": row}}})
    rows = [{"id": f"row{n}"} for n in range(40_000)]
    assert schema.check({"rows": rows}) == []
    issues = schema.check({"rows": [*rows[:5], {"id": "7"}, {}, *rows]})
    assert [issue.field_path for issue in issues] == ["rows[5].id", "rows[6].id"]
    assert "there may be more" in issues[-1].message


def test_small_data_has_its_errors_listed_also_if_a_keyword_is_slow_to_check() -> None:
    line = {"properties": {"price": {"type": "number", "multipleOf": 0.01}, "email": {"format": "email"}}}
    forms = [{"required": ["store"]}, {"required": ["zip"], "properties": {"zip": {"pattern": "^[0-9]{5}$"}}}]
    order = {
        "properties": {"lines": {"items": line}, "ship": {"oneOf": forms}, "id": {"pattern": "^W[0-9]{7}$"}},
        "unevaluatedProperties": False,
    }
    lines = [{"price": 1.5, "email": "a@example.com"}] * 20
    data = {"lines": [*lines, {"price": 0.015, "email": "nope"}], "ship": {"zip": "12345"}, "id": "W12", "extra": 1}
    issues = DataSchema.of(order, assert_formats=True).check(data)
    assert [issue.code for issue in issues] == [
        "schema.unevaluatedProperties",
        "schema.pattern",
        "schema.format",
        "schema.multipleOf",
    ]
    assert not any("there may be more" in issue.message for issue in issues)


def test_each_field_with_a_wrong_name_is_told() -> None:
    schema = DataSchema.of({"properties": {"fees": {"propertyNames": {"pattern": "^[a-z]+$"}}}})
    issues = schema.check({"fees": {"Visa": 1, "paypal": 2, "AMEX": 3}})
    assert [(issue.field_path, issue.message) for issue in issues] == [
        ("fees.AMEX", "fees.AMEX is a field whose name is not allowed."),
        ("fees.Visa", "fees.Visa is a field whose name is not allowed."),
    ]


NULL = {"type": "null"}
ADDRESS = {"type": "object", "required": ["city", "zip"], "properties": {"zip": {"type": "string"}}}
BY_CARD = {"properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["number", "month"]}
BY_BANK = {"properties": {"kind": {"const": "bank"}}}


@pytest.mark.parametrize(
    ("forms", "value", "hint"),
    [
        ([NULL, ADDRESS], {"zip": 8000}, "add x.city."),
        ([ADDRESS, NULL], {}, "add x.city."),
        ([BY_BANK, BY_CARD], {"kind": "card", "number": 4}, "add x.month."),
        ([NULL, {"type": "integer", "minimum": 1}], 0, "change x: 0 is less than the minimum of 1."),
    ],
)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_the_nearest_form_is_of_the_same_type_and_kind(forms: Any, value: Any, hint: str, keyword: str) -> None:
    (issue,) = DataSchema.of({"properties": {"x": {keyword: forms}}}).check({"x": value})
    assert issue.hint == f"To match the nearest form, {hint}"
    (issue,) = DataSchema.of({keyword: [NULL, {"type": "integer"}]}).check("a")
    assert issue.hint.startswith("To match the nearest form, change the data: ")


def test_every_error_of_a_tree_is_told_in_order() -> None:
    data = {"name": 3, "children": [{"name": "a"}, {"children": [{"name": None}], "name": []}, 7]}
    issues = DataSchema.of(TREE).check(data)
    assert [issue.field_path for issue in issues] == [
        "children[1].children[0].name",
        "children[1].name",
        "children[2]",
        "name",
    ]
    assert {issue.code for issue in issues} == {"schema.type"}
    assert issues[-1].metadata["schema_path"] == "/properties/name/type"


@pytest.mark.parametrize(
    ("schema", "data", "code", "message"),
    [
        (False, {}, "false", "The data (an object of 0 fields) is not allowed by the schema."),
        ({"const": 3}, 4, "const", "The data is 4, not the allowed value."),
        ({"exclusiveMaximum": 3}, 3, "exclusiveMaximum", "The data is 3, which is not less than 3."),
        ({"multipleOf": 0.5}, 0.7, "multipleOf", "The data is 0.7, which is not a multiple of 0.5."),
        ({"minLength": 3}, "ab", "minLength", "The data has 2 characters; at least 3 are required."),
        ({"maxLength": 3}, "abcd", "maxLength", "The data has 4 characters; at most 3 are allowed."),
        ({"uniqueItems": True}, [1, 1], "uniqueItems", "The data has the same entry more than once."),
        ({"contains": {"type": "string"}}, [1], "contains", "The data has too few entries of the required kind."),
        ({"not": {}}, 1, "not", "The data matches a form that the schema forbids."),
        (
            {"oneOf": [{}, {}]},
            1,
            "oneOf",
            "The data (1) matches more than one form, but must match exactly one.",
        ),
        ({"properties": {"a": False}}, {"a": 1}, "properties", "a (1) is not allowed by the schema."),
        ({"prefixItems": [{}], "items": False}, [1, 2], "items", "[1] is one entry too many."),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            "dependentRequired",
            "b is missing, but another field requires it.",
        ),
        (
            {"unevaluatedProperties": False},
            {"a": 1},
            "unevaluatedProperties",
            "a is a field that the schema does not allow.",
        ),
    ],
)
def test_sentences(schema: Any, data: Any, code: str, message: str) -> None:
    (issue,) = DataSchema.of(schema).check(data)
    assert (issue.code, issue.message) == (f"schema.{code}", message)
    assert issue.hint.endswith(".")


def test_values_that_are_no_json_are_survived() -> None:
    schema = DataSchema.of({"properties": {"a": {"type": "integer"}}})
    assert [issue.code for issue in schema.check({"a": "\ud800"})] == ["schema.type"]
    assert schema.check({"a": 10**400}) == []


def test_a_format_is_a_note() -> None:
    assert DataSchema.of({"format": "date-time"}).check("yesterday") == []


ASKED = {"$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/format-assertion": True}}


@pytest.mark.parametrize("asked", [{"assert_formats": True}, {}])
def test_a_format_is_checked_where_the_schema_or_its_row_asks_for_it(asked: dict[str, bool]) -> None:
    source = {"properties": {"sent_at": {"format": "date-time"}}} | ({} if asked else ASKED)
    schema = DataSchema.of(source, **asked)
    assert schema.check({"sent_at": "2026-02-01T08:00:00Z"}) == []
    (issue,) = schema.check({"sent_at": "yesterday"})
    assert (issue.code, issue.field_path) == ("schema.format", "sent_at")
    assert issue.message == 'sent_at is "yesterday", which does not have the format date-time.'


FORMATS = [
    ("date", "2026-02-28", "2026-02-30"),
    ("duration", "P1DT12H", "P1D2H"),
    ("email", "ada@example.com", "ada"),
    ("idn-hostname", "münchen.example", "〮한국"),
    ("ipv6", "::1", "::1::1"),
    ("iri-reference", "a/é", "\\\\WINDOWS"),
    ("json-pointer", "/a~1b", "/a~"),
    ("regex", "^a+$", "^(a"),
    ("time", "08:30:06Z", "08:30:06"),
    ("uri", "https://example.com/a", "example"),
    ("uri-template", "/a/{b}", "/a/{b"),
    ("uuid", "2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8"),
]


@pytest.mark.parametrize(("name", "good", "bad"), FORMATS, ids=lambda value: str(value)[:20])
def test_formats(name: str, good: str, bad: str) -> None:
    schema = DataSchema.of({"format": name}, assert_formats=True)
    assert [issue.code for text in (good, bad, 17) for issue in schema.check(text)] == ["schema.format"]


def test_an_unknown_format_says_nothing() -> None:
    assert DataSchema.of({"format": "shoe-size"}, assert_formats=True).check("many") == []


def test_the_slowest_format_takes_bounded_time() -> None:
    schema = DataSchema.of({"items": {"format": "regex"}}, assert_formats=True)
    assert cpu_seconds(lambda: schema.check(["(" * 16] * 40_000)) < BOUNDED


@pytest.mark.parametrize(("source", "codes"), [(True, []), (False, ["schema.false"])])
def test_a_schema_may_be_a_boolean(source: bool, codes: list[str]) -> None:
    assert [issue.code for issue in DataSchema.of(source).check({"a": 1})] == codes
