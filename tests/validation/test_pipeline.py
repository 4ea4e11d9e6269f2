"""Tests of the ends of layers, and of the verdict that follows from them."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet, BusinessRuleType
from handoffaudit.validation.config import GroundingPolicy, Mode, Requirements
from handoffaudit.validation.issues import Issue, Severity, make
from handoffaudit.validation.layers import CATALOGUE, LAYERS, CouldNotRunError, History, Subject
from handoffaudit.validation.layers.plugins import wrap
from handoffaudit.validation.library.models import ValidationIssue
from handoffaudit.validation.pipeline import decide
from handoffaudit.validation.verdict import score, verdict_to_dict

from .support import judge, payload, universal

NAMES = ["structure", "tokens", "chain", "references", "consistency", "evidence", "grounding", "rules"]


class Fixed:
    """A layer with a fixed end."""

    def __init__(self, name: str, issues: Iterable[Issue] = (), error: Exception | None = None) -> None:
        self.name, self.issues, self.error = name, issues, error

    def skip(self, subject: Subject) -> str | None:
        return None

    def check(self, subject: Subject) -> Iterable[Issue]:
        yield from self.issues
        if self.error:
            raise self.error


def statuses(verdict) -> dict[str, str]:
    return {layer.name: layer.status.value for layer in verdict.layers}


def test_layers_run_in_the_order_of_the_table() -> None:
    verdict = judge(universal())
    assert [layer.name for layer in LAYERS] == NAMES
    assert statuses(verdict) == {
        "structure": "passed",
        "tokens": "passed",
        "chain": "passed",
        "references": "skipped",
        "consistency": "passed",
        "evidence": "skipped",
        "grounding": "skipped",
        "rules": "skipped",
    }
    assert verdict.layers[3].why == "the handoff names no files"
    assert (verdict.outcome, verdict.quality_score, verdict.valid) == ("accepted", 1.0, True)


def test_a_structure_error_stops_the_rest() -> None:
    verdict = judge(payload(confidence=3, target_agent_id="researcher"))
    assert list(statuses(verdict).values()) == ["failed", *["skipped"] * (len(NAMES) - 1)]
    assert {layer.why for layer in verdict.layers[1:]} == {"structure failed"}
    assert (verdict.outcome, verdict.quality_score) == ("rejected", 0.0)


def test_a_structure_warning_stops_nothing() -> None:
    document = universal()
    del document["handoff"]["trace_id"]
    assert statuses(judge(document))["consistency"] == "passed"


def test_a_layer_switched_off_says_so() -> None:
    verdict = judge(payload(target_agent_id="researcher"), policy={"layers_off": frozenset({"chain"})})
    assert statuses(verdict)["chain"] == "skipped"
    assert verdict.layers[2].why == "switched off for this type"
    assert verdict.outcome == "accepted"


def test_a_rejection_outweighs_a_hold() -> None:
    long = ["a", "b", "c", "d", "e", "researcher"]
    assert judge(payload(call_chain=long)).outcome == "held"
    assert judge(payload(call_chain=long), history=History(repeats=2)).outcome == "rejected"


def test_a_holding_layer_has_failed_and_the_handoff_is_valid() -> None:
    verdict = judge(payload(call_chain=["a", "b", "c", "d", "e", "researcher"]))
    assert statuses(verdict)["chain"] == "failed"
    assert verdict.valid


def test_shadow_accepts_and_remembers() -> None:
    verdict = judge(payload(target_agent_id="planner"), policy={"mode": Mode.SHADOW})
    assert (verdict.outcome, verdict.would_decide) == ("accepted", "rejected")


def test_shadow_accepts_nothing_that_structure_rejects() -> None:
    verdict = judge(payload(data=3), policy={"mode": Mode.SHADOW})
    assert (verdict.outcome, verdict.would_decide) == ("rejected", "rejected")


def test_a_layer_that_could_not_run_is_no_pass() -> None:
    before = make(CATALOGUE["references.ephemeral"], message="m")
    layers = [Fixed("references", [before], CouldNotRunError("the disk is gone"))]
    verdict = judge(payload(), layers=layers)
    (layer,) = verdict.layers
    assert (layer.status, layer.why) == ("error", "the disk is gone")
    assert [issue.code for issue in verdict.issues] == ["references.ephemeral"]


def test_our_own_bug_gives_no_verdict() -> None:
    with pytest.raises(ZeroDivisionError):
        judge(payload(), layers=[Fixed("chain", error=ZeroDivisionError())])


def test_issues_are_numbered_through() -> None:
    verdict = judge(payload(confidence=0.1, timestamp="2026-02-01T08:00:00"))
    assert [issue.issue_id for issue in verdict.issues] == ["issue-1", "issue-2"]


def test_score() -> None:
    error, warning = make(CATALOGUE["chain.circular"], message="m"), make(CATALOGUE["confidence.low"], message="m")
    assert score([]) == 1.0
    assert score([error, warning, make(CATALOGUE["tokens.estimated"], message="m")]) == 0.8
    assert score([error] * 20) == 0.0
    assert score([make(CATALOGUE["structure.empty"], message="m")]) == 0.0
    assert score([make(CATALOGUE["structure.generated_trace_id"], message="m")]) == 0.95
    assert decide([warning]) == "accepted"


def test_the_verdict_as_json() -> None:
    verdict = judge(payload(target_agent_id="planner", confidence=0.2))
    shown = orjson.loads(orjson.dumps(verdict_to_dict(verdict)))
    assert list(shown) == [
        "validation_id",
        "handoff_id",
        "valid",
        "outcome",
        "strictness",
        "structural_issues",
        "semantic_issues",
        "issues",
        "claims",
        "critique",
        "quality_score",
        "mode",
        "would_decide",
        "layers",
        "token_counts",
        "chain",
        "remediation",
        "recommended_action",
        "output_hash",
        "pipeline_version",
        "policy_version",
        "policy_versions",
        "validator_model",
        "prompts",
        "pending",
        "unverified",
        "validated_at",
        "duration_ms",
    ]
    assert shown["validated_at"] == "2026-02-01T08:01:00Z"
    assert shown["structural_issues"] == [
        'target_agent_id: The target "planner" must NOT appear in call_chain: [planner] → researcher → [planner]. '
        "No reason is given."
    ]
    assert shown["semantic_issues"] == []
    assert [issue["json_pointer"] for issue in shown["issues"]] == ["/target_agent_id", "/confidence"]
    assert shown["chain"]["loop"] == [0]


def _required(name: str, severity: Severity) -> BusinessRule:
    return BusinessRule(rule_id=name, name=name, rule_type=BusinessRuleType.REQUIRED, field=name, severity=severity)


class _Remarks:
    """A custom layer with 100 warnings before its error."""

    layer_name = "remarks"

    def validate(self, parsed_output: dict[str, Any], envelope: Any, result: Any) -> list[ValidationIssue]:
        severities = [*[Severity.WARNING] * 100, Severity.ERROR]
        return [ValidationIssue(layer="remarks", severity=one, code="remarks.r", message=one) for one in severities]


def test_an_error_is_listed_after_any_number_of_warnings() -> None:
    rules = [
        _required("rationale", Severity.ERROR),
        *(_required(f"extra_{number}", Severity.WARNING) for number in range(120)),
    ]
    in_rules = judge(payload(), demands=Requirements(rules=(BusinessRuleSet(set_id="s", name="S", rules=rules[::-1]),)))
    claims = {f"a{number:03}": "def f():\n    return 17\n" for number in range(120)}
    in_claims = judge(
        payload(data=claims | {"z": "The order costs 99.90 EUR."}),
        policy={"grounding": GroundingPolicy.REJECT, "token_budget": 100_000},
        envelope={"context": {"offer": "The order costs 54.20 EUR."}},
    )
    of_a_user = judge(payload(), layers=(*LAYERS, wrap(_Remarks())))
    for verdict in (in_rules, in_claims, of_a_user):
        assert verdict.outcome == "rejected"
        assert len(verdict.issues) == 100
        assert [issue.severity for issue in verdict.issues].count(Severity.ERROR) == 1
        assert "only the first 100 are listed" in verdict.issues[-1].message
