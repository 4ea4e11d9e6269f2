"""Tests of the text block that replaces a handoff file."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from handoffaudit.validation.formats.file_report import MARK, read_block
from tests.elapsed import grows_linearly


def block(status: str = "complete", artifacts: str = "a.md", following: str = "b", summary: str = "s") -> str:
    return f"{MARK}\nSTATUS: {status}\nARTIFACTS: {artifacts}\nNEXT: {following}\nSUMMARY: {summary}"


def test_the_last_block_counts() -> None:
    found = read_block(f"{block('first')}\n\nOn second thoughts:\n{block('second')}")
    assert found is not None
    assert found["status"] == "second"


def test_keys_in_any_case_and_order() -> None:
    text = f"{MARK}\nsummary: s\nNext: b\nstatus: done\nArtifacts: [x, 'y z']"
    assert read_block(text) == {"status": "done", "artifacts": ["x", "y z"], "next": "b", "summary": "s"}


@pytest.mark.parametrize(
    ("written", "artifacts"),
    [
        ("a.md, b.md", ["a.md", "b.md"]),
        ("[a.md, b.md]", ["a.md", "b.md"]),
        ('["a.md","b.md"]', ["a.md", "b.md"]),
        ("\n- a.md\n- b.md", ["a.md", "b.md"]),
        ("a.md\nb.md", ["a.md", "b.md"]),
        ("[\n a.md,\n b.md\n]", ["a.md", "b.md"]),
        ("", []),
        ("none", []),
        ("[]", []),
    ],
)
def test_artifacts(written: str, artifacts: list[str]) -> None:
    found = read_block(block(artifacts=written))
    assert found is not None
    assert found["artifacts"] == artifacts


@pytest.mark.parametrize("written", ["null", "NULL", "none", "None"])
def test_nobody_is_next(written: str) -> None:
    found = read_block(block(following=written))
    assert found is not None
    assert found["next"] is None


def test_a_long_summary_goes_on_until_the_block_ends() -> None:
    found = read_block(block(summary="one\ntwo: three\n---\nunrelated"))
    assert found is not None
    assert found["summary"] == "one two: three"


@pytest.mark.parametrize(
    "text", ["", "STATUS: complete", MARK, f"{MARK}\nSTATUS: complete\nNEXT: b", block(status=""), block(following="")]
)
def test_what_lacks_a_field_is_no_block(text: Any) -> None:
    assert read_block(text) is None


@pytest.mark.parametrize(
    "text",
    [
        lambda n: MARK * (n // 11),
        lambda n: block(artifacts="," * n),
        lambda n: block(summary="\n" * n),
        lambda n: block() + " " * n,
    ],
    ids=["marks", "commas", "lines", "blanks"],
)
def test_hostile_text_takes_time_in_proportion(text: Callable[[int], str]) -> None:
    assert grows_linearly(lambda size: partial(read_block, text(size)), 62_500)
