"""Tests of the status that follows from a verdict and phase results."""

from typing import Any

import pytest

from handoffaudit.handoffs.hooks.hook_events import Name
from handoffaudit.handoffs.hooks.status import (
    DENY,
    LONGEST,
    ObjectiveCheck,
    Phase,
    Ruling,
    Status,
    check_objective,
    combine,
    list_findings,
    make_answer,
    read_phase,
)
from tests.handoffs.hooks.support import rules


def verdict(**changes: Any) -> dict[str, Any]:
    layer = {"name": "semantic", "status": "passed", "why": "PASSED with confidence 0.90: Well.", "duration_ms": 1.0}
    return {"pending": [], "validator_model": "m", "issues": [], "layers": [layer], **changes}


def issue(code: str, **changes: Any) -> dict[str, Any]:
    return {"code": code, "severity": "error", "message": "It is so.", "hint": "Mend it.", "metadata": {}, **changes}


NOT_MET = issue("semantic.objective_not_met", metadata={"status": "FAILED", "confidence": 0.8})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (verdict(), Status.PASSED),
        (verdict(issues=[NOT_MET]), Status.FAILED),
        (verdict(issues=[issue("tokens.over_budget")]), Status.PASSED),
        (verdict(issues=[issue("semantic.unavailable", severity="warning")]), Status.NOT_APPLICABLE),
        (verdict(layers=[{"name": "semantic", "status": "skipped", "why": "lenient"}]), Status.NOT_APPLICABLE),
        (verdict(layers=[{"name": "semantic", "status": "error", "why": "broken"}]), Status.NOT_APPLICABLE),
        (verdict(layers=[]), Status.NOT_APPLICABLE),
        # No LLM was asked, so no LLM found the objective met.
        (verdict(validator_model=None), Status.NOT_APPLICABLE),
        (verdict(pending=["semantic"]), Status.UNKNOWN),
        (None, Status.UNKNOWN),
    ],
)
def test_what_a_verdict_says_of_the_objective(given: dict[str, Any] | None, expected: Status) -> None:
    found = check_objective(given, final=True)
    assert found.status == expected
    assert found.message


def test_a_doubtful_pass_is_told_as_failed() -> None:
    unsure = NOT_MET | {"metadata": {"status": "PASSED", "confidence": 0.5}}
    found = check_objective(verdict(issues=[unsure]), final=True)
    assert (found.status, found.message) == (Status.FAILED, "FAILED with confidence 0.50: It is so.")


def test_a_verdict_that_is_not_the_last_says_nothing() -> None:
    assert check_objective(verdict(), final=False).status == Status.UNKNOWN


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("phase", ["passed", "failed", "none", "open"])
@pytest.mark.parametrize("check", list(Status))
def test_failed_wins_and_nothing_is_passed_that_nobody_checked(check: Status, phase: str, *, hybrid: bool) -> None:
    mode = "hybrid" if hybrid else "fallback"
    sent = {
        "none": Phase(hybrid=hybrid),
        "open": read_phase(rules("passed", mode) | {"results": []}),
    }.get(phase) or read_phase(rules(phase, mode))
    status = combine(ObjectiveCheck(check, "x"), sent)
    counts = hybrid or check is Status.NOT_APPLICABLE
    if check is Status.FAILED or (counts and phase == "failed"):
        assert status is Status.FAILED
    elif check is Status.UNKNOWN or (counts and phase == "open"):
        assert status is Status.UNKNOWN
    elif check is Status.PASSED or (counts and phase == "passed"):
        assert status is Status.PASSED
    else:
        assert status is Status.NOT_APPLICABLE


def test_findings_are_what_stands_in_the_way() -> None:
    given = verdict(
        issues=[
            issue("chain.circular"),
            *(issue("schema.type", message=f"Row {number} is not a number.") for number in range(44)),
            issue("references.ephemeral", severity="info"),
            NOT_MET,
            issue("semantic.unavailable", severity="warning"),
            issue("semantic.awaiting_check", severity="warning", hint=""),
        ]
    )
    found = list_findings(given, besides=(NOT_MET["code"],))
    assert found == [
        "chain.circular: It is so. Mend it.",
        "schema.type: Row 0 is not a number. (and 43 more like it) Mend it.",
        "semantic.awaiting_check: It is so.",
    ]


@pytest.mark.parametrize("name", [None, *Name])
def test_a_host_reads_no_word_where_nothing_is_decided(name: Name | None) -> None:
    told = make_answer(name, Ruling(Status.PASSED, "Well."))
    assert set(told) == {"status", "blocked", "exit_code", "reason", "handoff_id", "validation_state"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (Name.HANDED_BACK, {"decision"}),
        (Name.STOPPED, {"decision"}),
        (Name.HANDING_OUT, {"hookSpecificOutput"}),
        (Name.STARTED, set()),
        (Name.CALL, set()),
        (None, set()),
    ],
)
def test_what_blocks_is_said_as_the_event_has_it(name: Name | None, expected: set[str]) -> None:
    permission = DENY if name is Name.HANDING_OUT else ""
    told = make_answer(name, Ruling(Status.FAILED, "x" * 20_000, blocked=True, permission=permission))
    assert set(told) & {"decision", "hookSpecificOutput"} == expected
    assert (told["exit_code"], len(told["reason"])) == (1, LONGEST)
