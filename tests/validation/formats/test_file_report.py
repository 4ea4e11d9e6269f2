"""Tests of the verdict on a report of a handoff file."""

from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
import pytest

from handoffaudit.validation.formats.file_report import MARK, Fallback, Reason, Source, judge_report
from tests.elapsed import grows_linearly
from tests.scale import size

from .documents import example, report

FILE = example("handoff-file")
TEXT = orjson.dumps(FILE).decode()
BLOCK = f"{MARK}\nSTATUS: blocked\nARTIFACTS: none\nNEXT: null\nSUMMARY: No plan."


def test_a_good_file() -> None:
    for content in (FILE, TEXT):
        finding = judge_report(report(content, response_text=BLOCK))
        assert (finding.content, finding.source) == (FILE, Source.HANDOFF_JSON)
        assert (finding.reason, finding.fallback, finding.issues) == (None, None, ())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, Reason.FILE_MISSING),
        ("", Reason.JSON_PARSE_ERROR),
        (TEXT[:-1], Reason.JSON_PARSE_ERROR),
        ("3", Reason.SCHEMA_INVALID),
        ("{}", Reason.SCHEMA_INVALID),
        ({**FILE, "artifacts": "a.md"}, Reason.SCHEMA_INVALID),
    ],
)
def test_reasons(content: Any, reason: Reason) -> None:
    without = judge_report(report(content))
    assert (without.reason, without.fallback) == (reason, None)
    assert without.issues
    failed = judge_report(report(content, response_text="no block"))
    assert (failed.reason, failed.fallback, failed.source) == (reason, Fallback.FAILED, Source.TEXT_FALLBACK)
    read = judge_report(report(content, response_text=BLOCK))
    assert (read.reason, read.fallback, read.content["status"]) == (reason, Fallback.OK, "blocked")


def test_a_file_said_not_to_exist_is_missing_whatever_its_content() -> None:
    assert judge_report({"file": {"exists": False, "content": TEXT}}).reason is Reason.FILE_MISSING


@pytest.mark.parametrize(
    ("content", "removed"),
    [
        (f"```json\n{TEXT}\n```", "the code fence"),
        (f"\ufeff{TEXT}", "the byte-order mark"),
        (f"{TEXT[:-1]},}}", "the trailing comma"),
        (f"\ufeff```\n{TEXT[:-1]},}}\n```\n", "the byte-order mark and the code fence and the trailing comma"),
    ],
)
def test_what_could_be_mended_is_said(content: str, removed: str) -> None:
    finding = judge_report(report(content))
    assert finding.reason is Reason.JSON_PARSE_ERROR
    assert finding.issues[0].code == "structure.json_parse"
    assert f"after removing {removed}:" in finding.issues[0].hint


def test_what_is_no_json_at_all_keeps_its_own_hint() -> None:
    assert "removing" not in judge_report(report("status: complete")).issues[0].hint


@pytest.mark.parametrize("whole", [{}, {"file": []}, {"file": {"exists": 1, "content": TEXT}}, {"elsewhere": 3}])
def test_what_is_no_report_is_a_missing_file(whole: dict[str, Any]) -> None:
    assert judge_report(whole).reason is Reason.FILE_MISSING


@pytest.mark.parametrize(
    "document",
    [
        lambda n: report("," * n),
        lambda n: report("```\n" * (n // 4)),
        lambda n: report(" " * (n // 2) + "`" * (n // 2)),
        lambda n: report(("," + " " * 999) * (n // 1000)),
        lambda n: report("," + " " * n),
        lambda n: report(None, elsewhere=["x" * 10_000] * (n // 200), expected_path="x" * 10_000),
        lambda n: report({**FILE, "artifacts": [1] * (n // 2), "status": 1}),
    ],
    ids=["commas", "fences", "blanks", "comma-blanks", "one comma", "paths", "artifacts"],
)
def test_hostile_reports_take_time_in_proportion(document: Callable[[int], dict[str, Any]]) -> None:
    assert judge_report(document(1_000_000)).reason is not None
    assert grows_linearly(lambda count: partial(judge_report, document(count)), size(62_500))
