"""Tests that required fields and their types are checked even without a schema file."""

import copy
from pathlib import Path
from typing import Any

import pytest

from handoffaudit.validation.formats import schema
from handoffaudit.validation.formats.schema_check import Shape
from handoffaudit.validation.paths import Location, at

from .documents import example, variants

TABLES = {variant.shape.name: (variant.example, variant.shape.basics) for _, variant in variants().values()}
EACH = pytest.mark.parametrize("name", TABLES)


def required(rule: dict[str, Any], place: Location = ()) -> set[Location]:
    """Return the places that the schema requires, including the places inside required objects."""
    found: set[Location] = set()
    for field in rule.get("required", []):
        found |= {(*place, field)} | required(rule["properties"].get(field, {}), (*place, field))
    return found


@EACH
def test_the_table_is_what_the_schema_requires(name: str) -> None:
    assert set(TABLES[name][1]) == required(schema(name))


@EACH
def test_a_good_document_only_warns(name: str, tmp_path: Path) -> None:
    document, table = TABLES[name]
    (issue,) = Shape(name, table, tmp_path).check(document)
    assert (issue.code, issue.severity, issue.message) == (
        "structure.schema_missing",
        "warning",
        "Schema not found. Basic validation only.",
    )


@EACH
def test_each_field_that_is_missing_or_of_another_type_is_found(name: str, tmp_path: Path) -> None:
    document, table = TABLES[name]
    shape = Shape(name, table, tmp_path)
    for place, wanted in table.items():
        without = copy.deepcopy(document)
        del at(without, place[:-1])[place[-1]]
        assert ("structure.missing_field", place) in [(issue.code, issue.location) for issue in shape.check(without)]
        if wanted != "any":
            wrong = copy.deepcopy(document)
            at(wrong, place[:-1])[place[-1]] = 7 if wanted == "object or text" else None
            assert ("structure.wrong_type", place) in [(issue.code, issue.location) for issue in shape.check(wrong)]


def test_a_file_that_is_no_json_is_no_schema(tmp_path: Path) -> None:
    (tmp_path / "payload.schema.json").write_text("{")
    found = Shape("payload", TABLES["payload"][1], tmp_path).check(example("payload"))
    assert [issue.code for issue in found] == ["structure.schema_missing"]
