"""Tests of a JSON Schema and of pydantic models as validators."""

from typing import Any, Literal

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Field, model_validator

from handoffaudit.validation import IValidator, SchemaValidator, ValidationIssue

from .support import answer, codes, envelope


class Leg(BaseModel):
    side: Literal["buy", "sell"]
    size: float = Field(gt=0)


class Trade(BaseModel):
    name: str
    legs: list[Leg]


class Closed(BaseModel, extra="forbid"):
    name: str


def against(schema: Any, output: Any) -> list[ValidationIssue]:
    return SchemaValidator().validate(output, envelope(expected_output_schema=schema), answer())


def of_model(model: type[BaseModel], output: dict[str, Any]) -> list[tuple[str, str]]:
    validator = SchemaValidator()
    validator.register_model("Trade", model)
    issues = validator.validate({"_output_type": "Trade", **output}, envelope(), answer())
    return [(issue.code, issue.field_path) for issue in issues]


def test_every_error_is_told_with_its_place() -> None:
    schema = {
        "type": "object",
        "required": ["thesis"],
        "properties": {
            "score": {"type": "number", "maximum": 1},
            "layers": {"type": "array", "items": {"properties": {"name": {"minLength": 3}}}},
        },
    }
    issues = against(schema, {"score": 7, "layers": [{"name": "long"}, {"name": "x"}]})
    assert isinstance(SchemaValidator(), IValidator)
    assert {(issue.code, issue.field_path) for issue in issues} == {
        ("schema.required", "thesis"),
        ("schema.maximum", "score"),
        ("schema.minLength", "layers[1].name"),
    }
    assert {(issue.layer, issue.severity) for issue in issues} == {("schema", "error")}
    assert all(issue.metadata["hint"] for issue in issues)


@pytest.mark.parametrize(
    ("schema", "output", "valid"),
    [
        (True, 3, True),
        (False, 3, False),
        (False, {}, False),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2.0], True),
        ({"type": "array", "items": {"type": "integer"}}, [1, "2"], False),
        ({"type": "null"}, None, True),
        ({"const": {"a": False}}, {"a": 0}, False),
        ({"format": "email"}, "no address", True),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"minLength": 1}, True),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"minLength": -1}, False),
    ],
    ids=repr,
)
def test_any_value_against_any_schema(schema: Any, output: Any, valid: bool) -> None:
    assert (against(schema, output) == []) is valid


def test_without_a_schema_the_output_is_an_object() -> None:
    assert against({}, {"any": "thing"}) == []
    (issue,) = against({}, ["a", "list"])
    assert (issue.layer, issue.severity) == ("schema", "error")


def test_a_broken_schema_is_told() -> None:
    (issue,) = against({"type": "objekt"}, {})
    assert (issue.layer, issue.severity, issue.code) == ("schema", "error", "schema.invalid_schema")


def test_what_is_nested_too_deep() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": deep}
    (issue,) = against({"type": "object"}, deep)
    assert "64 levels" in issue.message


def test_a_model_for_a_type() -> None:
    assert of_model(Trade, {"name": "a", "legs": [{"side": "buy", "size": 1}]}) == []
    assert of_model(Trade, {"legs": [{"side": "hold", "size": 1}, {"side": "buy", "size": 0}]}) == [
        ("schema.pydantic.missing", "name"),
        ("schema.pydantic.literal_error", "legs[0].side"),
        ("schema.pydantic.greater_than", "legs[1].size"),
    ]


def test_a_model_of_the_constructor_and_of_another_type() -> None:
    validator = SchemaValidator({"Trade": Trade})
    assert codes(validator.validate({"_output_type": "Trade"}, envelope(), answer())) == ["schema.pydantic.missing"] * 2
    assert validator.validate({"_output_type": "Other"}, envelope(), answer()) == []
    assert validator.validate({}, envelope(), answer()) == []


def test_a_closed_model_does_not_refuse_what_the_output_says_of_itself() -> None:
    assert of_model(Closed, {"name": "a", "evidence_refs": {}, "assumptions": []}) == []
    assert of_model(Closed, {"name": "a", "note": "x"}) == [("schema.pydantic.extra_forbidden", "note")]


def test_a_closed_model_may_read_a_field_from_several_places() -> None:
    class Aliased(BaseModel, extra="forbid"):
        why: str = Field(validation_alias=AliasChoices("rationale", AliasPath("texts", 0)))
        cited: dict[str, str] = Field(validation_alias=AliasChoices("sources", "evidence_refs"))
        listed: str = Field(validation_alias=AliasPath("assumptions", 0))

    output = {"texts": ["a"], "evidence_refs": {"why": "b"}, "assumptions": ["c"]}
    assert of_model(Aliased, output) == []
    assert of_model(Aliased, {**output, "note": "x"}) == [("schema.pydantic.extra_forbidden", "note")]


def test_a_rule_of_the_whole_model() -> None:
    class Range(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def _ordered(self) -> "Range":
            if self.low > self.high:
                raise ValueError("low is above high")
            return self

    assert of_model(Range, {"low": 2, "high": 1}) == [("schema.pydantic.value_error", "")]


def test_a_schema_and_a_model_are_both_asked() -> None:
    asked = envelope(expected_output_schema={"required": ["thesis"]})
    validator = SchemaValidator({"Trade": Closed})
    found = codes(validator.validate({"_output_type": "Trade"}, asked, answer()))
    assert found == ["schema.required", "schema.pydantic.missing"]


def test_a_flood_of_errors_is_bounded() -> None:
    legs = [{"side": "hold", "size": 1}] * 5000
    found = of_model(Trade, {"name": "a", "legs": legs})
    assert len(found) == 100
