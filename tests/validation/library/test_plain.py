"""Tests of Python values as JSON values."""

import enum
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from handoffaudit.validation.json_text import MAX_DEPTH, deeper_than, to_json


class Colour(enum.Enum):
    RED = "red"


class Flag(enum.IntEnum):
    ON = 1


@dataclass
class Point:
    x: int


class Line(BaseModel, extra="allow"):
    start: Point


def test_json_stays_as_it_is() -> None:
    document = {"a": [1, 2.5, "é", None, True, {"b": {}}], "": 10**400}
    assert to_json(document) == document
    assert to_json(document) is not document


def test_other_values_become_json() -> None:
    given = {
        "model": Line(start=Point(1), end="open"),
        "colour": Colour.RED,
        Colour.RED: (1, 2),
        3: {"x"},
        "at": datetime(2026, 2, 1, tzinfo=UTC),
        "id": UUID(int=1),
        "sum": Decimal("1.50"),
    }
    assert to_json(given) == {
        "model": {"start": {"x": 1}, "end": "open"},
        "colour": "red",
        "red": [1, 2],
        "3": ["x"],
        "at": "2026-02-01T00:00:00+00:00",
        "id": "00000000-0000-0000-0000-000000000001",
        "sum": "1.50",
    }


def test_what_json_cannot_say() -> None:
    assert to_json([10**6000, -(10**6000), inf, nan, Flag(1)]) == [None, None, None, None, 1]
    assert to_json({"a\ud800": "\udfff\0"}) == {"a?": "?\0"}


def test_loops_and_depths_end() -> None:
    loop: list[Any] = [1]
    loop += [loop, loop]
    assert to_json(loop) == [1, None, None]
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    cut = to_json(deep)
    assert deeper_than(cut, MAX_DEPTH)
    assert len(json.dumps(cut)) < 200
