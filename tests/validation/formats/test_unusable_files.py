"""Tests of reports of unusable files: their source, the reason, and where the file is instead."""

from typing import Any

import pytest

from handoffaudit.validation.formats.file_report import MARK, Reason, Source, judge_report
from handoffaudit.validation.formats.handoff_file import report_flaws
from tests.elapsed import BOUNDED, cpu_seconds

from .documents import example, report

FILE = example("handoff-file")
BLOCK = f"{MARK}\nSTATUS: blocked\nARTIFACTS: none\nNEXT: null\nSUMMARY: No plan."


def test_a_file_that_cannot_be_used_is_never_the_source() -> None:
    for content in (None, "{", "{}"):
        finding = judge_report(report(content))
        assert (finding.source, finding.fallback, finding.blocks) == (Source.TEXT_FALLBACK, None, True)
        assert finding.reasons == (finding.reason,)


def test_two_reasons_where_the_fallback_ran() -> None:
    read, failed = (judge_report(report("{", response_text=text)) for text in (BLOCK, "no block"))
    assert (read.reasons, read.blocks) == (("json_parse_error", "text_fallback_ok"), False)
    assert (failed.reasons, failed.blocks) == (("json_parse_error", "text_fallback_fail"), True)
    assert (judge_report(report(FILE)).reasons, judge_report(report(FILE)).blocks) == ((), False)


def test_a_file_that_is_there_and_cannot_be_read_is_not_missing() -> None:
    finding = judge_report(report(file={"exists": True, "error": "permission denied."}))
    assert finding.reason is Reason.JSON_PARSE_ERROR
    assert finding.issues[0].message.endswith("exists, but cannot be read: permission denied.")
    assert judge_report(report(file={"exists": True})).issues[0].message.endswith("cannot be read.")


def test_what_stands_in_the_place_of_a_file_is_said() -> None:
    finding = judge_report(report(file={"exists": False, "error": "it is a folder"}))
    assert finding.reason is Reason.FILE_MISSING
    assert "(it is a folder)" in finding.issues[0].message


@pytest.mark.parametrize(
    ("elsewhere", "nearest"),
    [
        (["old/handoff.json", "runs/42/plan/handoff.json"], "runs/42/plan/handoff.json"),
        (["runs/41/plan/planner/handoff.json", "runs/42/plan/handoff.json"], "runs/42/plan/handoff.json"),
        (["runs/42/handoff.json", "runs/42/plan/Planner/handoff.json"], "runs/42/plan/Planner/handoff.json"),
        (["x/y/handoff.json", r"runs\42\plan\planner\out\h.json"], r"runs\42\plan\planner\out\h.json"),
        ([], ""),
        ([3, None], ""),
    ],
)
def test_the_nearest_of_the_wrong_paths(elsewhere: list[Any], nearest: str) -> None:
    finding = judge_report(report(None, expected_path="./runs/42/plan/planner/handoff.json", elsewhere=elsewhere))
    assert finding.wrong_path == nearest
    assert (f'not "{nearest}".' in finding.issues[0].hint) == bool(nearest)


def test_paths_that_hardly_fit_are_compared_in_bounded_time() -> None:
    hostile = report(None, expected_path="a/b" * 300, elsewhere=["b/a" * 300] * 50)
    assert cpu_seconds(lambda: [judge_report(hostile) for _ in range(5)]) < BOUNDED


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"agent": 3}, "structure.wrong_type"),
        ({"phase": ""}, "structure.empty"),
        ({"phase": "x" * 201}, "structure.too_long"),
        ({"timestamp": "yesterday"}, "structure.bad_format"),
        ({"timestamp": "2026-02-15T00:15:00"}, "structure.bad_format"),
    ],
)
def test_flaws_of_the_report_itself(changes: dict[str, Any], code: str) -> None:
    assert [issue.code for issue in report_flaws(report(FILE, **changes))] == [code]
    assert list(report_flaws(report("{", timestamp="2026-02-15T00:15:00Z"))) == []
