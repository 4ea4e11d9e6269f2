"""Tests of the JSON of any value."""

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import uuid
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pydantic
import pytest
from handoffaudit_client.plain_json import DEEPEST, encode, shorten, to_bytes, to_plain
from hypothesis import given
from hypothesis import strategies as st


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    LARGE = 3


class Kind(str, enum.Enum):  # noqa: UP042 (Python 3.10 has no other)
    FINAL = "final"


@dataclasses.dataclass
class Order:
    id: str
    colour: Colour


class Model(pydantic.BaseModel):
    total: decimal.Decimal
    at: datetime.date


class OldModel:
    """A model of pydantic 1."""

    def dict(self) -> Any:
        return {"a": 1}


class Message(pydantic.BaseModel):
    type: str = "ai"
    content: str
    tool_calls: list[dict[str, Any]] = []
    response_metadata: dict[str, Any] = {}


class Array:
    def tolist(self) -> list[int]:
        return [1, 2]


class Slots:
    __slots__ = ("x",)

    def __repr__(self) -> str:
        return "Slots!"


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ({"a": (1, 2.5, None, True)}, {"a": [1, 2.5, None, True]}),
        (Model(total=decimal.Decimal("12.40"), at=datetime.date(2026, 2, 15)), {"total": "12.40", "at": "2026-02-15"}),
        (Order("W1", Colour.RED), {"id": "W1", "colour": "red"}),
        (OldModel(), {"a": 1}),
        ([Colour.RED, Size.LARGE, Kind.FINAL], ["red", 3, "final"]),
        ({Colour.RED: 1, 2: 2, None: 3, (1, 2): 4}, {"red": 1, "2": 2, "null": 3, "[1,2]": 4}),
        ({1: "a", "1": "b"}, {"1": "a", "1'": "b"}),
        (b"caf\xc3\xa9", "café"),
        (bytearray(b"x"), "x"),
        (b"\xff\xfe", {"bytes": 2, "base64": "//4="}),
        (datetime.datetime(2026, 2, 15, tzinfo=datetime.UTC), "2026-02-15T00:00:00+00:00"),
        (datetime.timedelta(minutes=2), 120.0),
        (decimal.Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        ({1}, [1]),
        (deque([1, 2]), [1, 2]),
        (Point(1, 2), {"x": 1, "y": 2}),
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (UserDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (SimpleNamespace(a=1, _b=2), {"a": 1}),
        (Array(), [1, 2]),
        (Slots(), "Slots!"),
        (ValueError("no"), "ValueError: no"),
        (Order, "Order"),
        (Message(content="hi", response_metadata={"tokens": 3}), {"type": "ai", "content": "hi"}),
        (SimpleNamespace(role="user", content=[{"text": "hi"}], x=1), {"role": "user", "content": [{"text": "hi"}]}),
        ([math.nan, math.inf], ["nan", "inf"]),
        ([2**64 - 1, 2**64, 10**5000], [2**64 - 1, str(2**64), hex(10**5000)]),
        ("\ud800", "\ud800"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_becomes_json(value: Any, plain: Any) -> None:
    found = to_plain(value)
    assert found == plain
    json.loads(to_bytes(encode(found)))


def test_files_are_cut_because_no_llm_reads_their_characters() -> None:
    picture = bytes(range(256)) * 100
    encoded = base64.b64encode(picture).decode()
    cut = f"{encoded[:1_000]}… [cut: longer than 1,000 characters]"
    message = {"image_url": {"url": f"data:image/png;base64,{encoded}"}}
    assert to_plain(message) == {"image_url": {"url": f"data:image/png;base64,{cut}"}}
    assert to_plain(picture) == {"bytes": len(picture), "base64": cut}
    assert to_plain(picture[:1_000])["base64"] == base64.b64encode(picture[:1_000]).decode()
    words = "Acme delivers " * 1_000
    assert to_plain(words) == words


def test_a_generator_is_left_to_its_user() -> None:
    numbers = (number for number in range(3))
    assert "generator" in to_plain({"numbers": numbers})["numbers"]
    assert list(numbers) == [0, 1, 2]


def test_a_cycle_ends() -> None:
    value: dict[str, Any] = {"a": 1}
    value["self"] = [value]
    assert to_plain(value) == {"a": 1, "self": ["[cut: refers to itself]"]}


def test_the_same_object_twice_is_no_cycle() -> None:
    shared = {"x": 1}
    assert to_plain([shared, shared]) == [shared, shared]


def test_deep_nesting_ends() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    found, depth = to_plain(value), 0
    while isinstance(found, list):
        found, depth = found[0], depth + 1
    assert (found, depth) == (f"[cut: nested more than {DEEPEST} levels deep]", DEEPEST)


def test_a_value_that_multiplies_itself_ends() -> None:
    value: list[Any] = ["x"]
    for _ in range(50):
        value = [value] * 10
    assert len(encode(to_plain(value))) < 20_000_000


@pytest.mark.parametrize("mock", [Mock(), MagicMock()], ids=["Mock", "MagicMock"])
def test_a_mock_ends(mock: Mock) -> None:
    json.loads(encode(to_plain({"mock": mock})))


class Endless:
    def model_dump(self, **_: Any) -> Any:
        return {"next": Endless()}


class Raising:
    def model_dump(self, **_: Any) -> Any:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


class Items(dict[str, Any]):
    def __iter__(self) -> Iterator[str]:
        raise RuntimeError


def test_values_that_raise_or_never_end() -> None:
    assert encode(to_plain(Endless())).count("next") < 100
    assert to_plain([Raising(), 1]) == ["<Raising>", 1]
    json.loads(encode(to_plain(Items(a=1))))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.text(), part),
    )
)
def test_json_stays_as_it_is(value: Any) -> None:
    text = encode(to_plain(value))
    json.loads(to_bytes(text))
    if "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value):
        assert json.loads(text) == value


@pytest.mark.parametrize(
    "value",
    [
        "x" * 5_000_000,
        ["word"] * 200_000,
        {f"key {number}": "x" * 100 for number in range(20_000)},
        [["ü" * 1_000] * 100] * 20,
        {"deep": [[[["x" * 3000] * 20] * 20] * 20] * 20},
    ],
    ids=["text", "list", "object", "umlauts", "deep"],
)
def test_a_long_value_is_cut_and_says_so(value: Any) -> None:
    text = encode(shorten(to_plain(value), 500_000))
    assert len(to_bytes(text)) <= 500_000
    assert "[cut: " in text


def test_a_value_that_is_cut_several_times_says_once_how_much_is_missing() -> None:
    found = shorten({"text": "x" * 70_000, "list": list(range(70_000))}, 2_000)
    assert found["text"] == "x" * 256 + "… [cut: longer than 256 characters]"
    assert found["list"] == [*range(256), "[cut: 69,744 more]"]
