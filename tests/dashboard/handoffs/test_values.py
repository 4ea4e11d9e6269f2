"""Tests of values on pages: written as JSON, so that no two unequal values look alike."""

from typing import Any

import pytest
from django.template import Context, Template

from handoffaudit.dashboard.handoffs.verdict_findings import findings_of
from handoffaudit.validation.diff import difference
from handoffaudit.validation.verdict import verdict_to_dict
from tests.validation.support import judge, payload, universal


def shown(document: dict[str, Any]) -> tuple[str, str]:
    issue = findings_of(verdict_to_dict(judge(document)))[0]
    return issue.actual, issue.expected


@pytest.mark.parametrize(
    ("document", "actual", "expected"),
    [
        (payload(confidence="0.8"), '"0.8"', "number"),
        (payload(confidence=1.8), "1.8", "minimum 0.0, maximum 1.0"),
        (payload(timestamp="yesterday"), '"yesterday"', "an RFC 3339 date and time"),
        (payload(call_chain=[]), "[]", "at least one entry"),
        (payload(call_chain=[*list("abcdef"), "researcher"]), "7", "at most 5"),
        (payload(confidence=0.2), "0.2", "at least 0.5"),
        (payload(source_agent_id="critic"), '["planner", "researcher"]', '"critic"'),
        (universal(schema_type="Universal"), '"Universal"', '"universal"'),
        (universal(context={"problem_type": "plan"}), '"plan"', '"decision", "creative", "analytical"'),
    ],
)
def test_what_an_issue_is_about_and_what_is_expected(document: dict[str, Any], actual: str, expected: str) -> None:
    is_now, wanted = shown(document)
    assert is_now == actual
    assert wanted.startswith(expected)


@pytest.mark.parametrize(
    ("before", "after", "first", "second"),
    [
        ("0.8", 0.8, "&quot;0.8&quot;", "0.8"),
        (None, "null", "null", "&quot;null&quot;"),
        ("true", True, "&quot;true&quot;", "true"),
        ("a\nb", "a\nc", "&quot;a\nb&quot;", "&quot;a\nc&quot;"),
        ('say "x"', "", "&quot;say \\&quot;x\\&quot;&quot;", "&quot;&quot;"),
    ],
)
def test_what_a_change_was_and_became(before: Any, after: Any, first: str, second: str) -> None:
    (change,) = difference({"a": before}, {"a": after}).changes
    page = Template('{% include "dashboard/handoff/attempts.html#change" %}').render(Context({"change": change}))
    assert f"before: </span>{first}</del>" in page
    assert f"after: </span>{second}</ins>" in page
