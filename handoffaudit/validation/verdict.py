"""The verdict of a validation run on one handoff: its outcome, score, layers and JSON form."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from handoffaudit.validation.claims import Claim, claim_to_dict
from handoffaudit.validation.config import OUTPUT, Mode, Strictness
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.times import utc_text

_COST = {Severity.CRITICAL: 0.30, Severity.ERROR: 0.15, Severity.WARNING: 0.05, Severity.INFO: 0.0}

_STRUCTURE = "structure"


def score(issues: Iterable[Issue]) -> float:
    """Return the quality score, from 0.0 to 1.0.

    The score is 1.0 minus 0.30 for each critical issue, 0.15 for each error and 0.05 for each warning. An error of the
    structure layer sets the score to 0.0.
    """
    total = 1.0
    for issue in issues:
        if issue.layer == _STRUCTURE and issue.severity in (Severity.ERROR, Severity.CRITICAL):
            return 0.0
        total -= _COST[issue.severity]
    return max(round(total, 2), 0.0)


_TO_ENGINE = {"schema": "structure", "business_rule": "rules"}

_FROM_ENGINE = {engine: theirs for theirs, engine in _TO_ENGINE.items()}

_GRAVE = (Severity.ERROR, Severity.CRITICAL)


def engine_layer(name: str) -> str:
    """Return the engine's name of a library layer: `schema` is `structure`, `business_rule` is `rules`."""
    return _TO_ENGINE.get(name, name)


def library_layer(name: str) -> str:
    return _FROM_ENGINE.get(name, name)


def error_lines(found: Iterable[tuple[str, Severity, str]]) -> list[str]:
    """Return the errors and critical findings as `[layer:severity] message`.

    Each entry of `found` is the layer (engine or library name), the severity and the message of an issue.
    """
    return [
        f"[{library_layer(layer)}:{severity}] {message}" for layer, severity, message in found if severity in _GRAVE
    ]


PIPELINE_VERSION = "3"

PENDING: Final = "pending: the LLM is being asked"

NOT_CHECKED: Final = "semantic_validation_unavailable"

STRUCTURAL_LAYERS = frozenset({"structure", "tokens", "chain", "references", "consistency"})


class Outcome(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    HELD = "held"


class LayerStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    ERROR = "error"


class LayerResult(msgspec.Struct, frozen=True):
    """The result of one layer in one run.

    `why` is the reason if the layer was skipped or could not run. Otherwise, `why` is the note of the layer, or empty.
    """

    name: str
    status: LayerStatus
    why: str
    duration_ms: float


class SectionCount(msgspec.Struct, frozen=True):
    """The tokens of one section. `target` is None if the section has no target."""

    name: str
    count: int
    target: int | None


class TokenCounts(msgspec.Struct, frozen=True):
    """The tokens of the document, written as compact JSON.

    `estimated` is true if the counts are estimated, because no tokenizer was installed.
    """

    total: int
    budget: int
    declared: int | None
    tokenizer: str
    estimated: bool
    sections: tuple[SectionCount, ...] = ()


class ChainFacts(msgspec.Struct, frozen=True):
    """The chain as declared and as derived by the server, with the parts that broke a rule.

    `derived` is the chain that follows from the earlier handoffs that the server knows. Without such handoffs,
    `derived` is None if a chain is declared, and otherwise has only the source. `derived_complete` is False if an
    ancestor is missing. `shown` is the chain that the limits were applied to. `loop` holds the positions of the target
    in `shown`, and is empty if no rule about loops was broken. `over_from` is the first position past the approval
    length, None if no approval is needed. `repeats` counts the earlier handoffs of the same data on the same route in
    the trace.
    """

    declared: tuple[str, ...]
    derived: tuple[str, ...] | None
    derived_complete: bool
    shown: tuple[str, ...]
    target: str
    loop: tuple[int, ...] = ()
    over_from: int | None = None
    repeats: int = 0


class Critique(msgspec.Struct, frozen=True):
    """A critique: the second opinion of an LLM.

    `overall_score` is between 0.0 and 1.0. `issues_found` are the findings as the LLM wrote them. `latency_ms` is the
    duration of the successful call.
    """

    model_used: str
    triggered_by: str
    overall_score: float
    issues_found: tuple[Mapping[str, str], ...]
    reasoning: str
    cost_usd: float
    latency_ms: float
    critique_id: str = ""
    timestamp: datetime | None = None


class Verdict(msgspec.Struct, frozen=True):
    """The verdict on one handoff.

    `would_decide` is the outcome without shadow mode. `format` is empty if the document could not be read. `pending`
    lists the layers for which the LLM is asked later. `unverified` is true if the LLM could not be asked, or gave no
    usable answer. `prompts` maps a layer to the version of its prompt. `duration_ms` is in milliseconds.
    """

    validation_id: str
    handoff_id: str
    outcome: Outcome
    would_decide: Outcome
    mode: Mode
    strictness: Strictness
    issues: tuple[Issue, ...]
    layers: tuple[LayerResult, ...]
    quality_score: float
    token_counts: TokenCounts | None
    chain: ChainFacts | None
    output_hash: str
    policy_version: int
    validated_at: datetime
    duration_ms: float
    pipeline_version: str = PIPELINE_VERSION
    validator_model: str | None = None
    claims: tuple[Claim, ...] = ()
    remediation: RemediationLog | None = None
    recommended_action: str | None = None
    policy_versions: Mapping[str, int] = msgspec.field(default_factory=dict)
    format: str = ""
    pending: tuple[str, ...] = ()
    unverified: bool = False
    prompts: Mapping[str, str] = msgspec.field(default_factory=dict)
    critique: Critique | None = None

    @property
    def valid(self) -> bool:
        return not any(issue.severity in (Severity.ERROR, Severity.CRITICAL) for issue in self.issues)

    @property
    def structural_issues(self) -> list[str]:
        """Return the blocking issues of the structural layers, each as `path: message`.

        An issue about the whole document has no path. Senders of the payload format read this list.
        """
        return [_line(issue) for issue in self._in_the_way() if issue.layer in STRUCTURAL_LAYERS]

    @property
    def semantic_issues(self) -> list[str]:
        """Return the blocking issues of the layers that judge the content, as `path: message`.

        For an unverified handoff, the list ends with `NOT_CHECKED`. So a client that reads only this list does not
        mistake an unchecked handoff for a flawless one.
        """
        found = [_line(issue) for issue in self._in_the_way() if issue.layer not in STRUCTURAL_LAYERS]
        return [*found, NOT_CHECKED] if self.unverified else found

    def _in_the_way(self) -> list[Issue]:
        return [issue for issue in self.issues if issue.blocks]


def _line(issue: Issue) -> str:
    return f"{issue.field_path}: {issue.message}" if issue.location else issue.message


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as the API and files show it: plain JSON values, times as RFC 3339 in UTC."""
    return {
        "validation_id": verdict.validation_id,
        "handoff_id": verdict.handoff_id,
        "valid": verdict.valid,
        # `str` is used, because each access to the `value` of an enumeration member calls a Python function.
        "outcome": str(verdict.outcome),
        "strictness": str(verdict.strictness),
        "structural_issues": verdict.structural_issues,
        "semantic_issues": verdict.semantic_issues,
        "issues": [issue.to_dict() for issue in verdict.issues],
        "claims": [claim_to_dict(claim) for claim in verdict.claims],
        "critique": _critique_dict(verdict.critique) if verdict.critique else None,
        "quality_score": verdict.quality_score,
        "mode": str(verdict.mode),
        "would_decide": str(verdict.would_decide),
        "layers": [_layer_dict(layer) for layer in verdict.layers],
        "token_counts": _token_dict(verdict.token_counts) if verdict.token_counts else None,
        "chain": _chain_dict(verdict.chain) if verdict.chain else None,
        "remediation": verdict.remediation.to_dict() if verdict.remediation else None,
        "recommended_action": verdict.recommended_action,
        "output_hash": verdict.output_hash,
        "pipeline_version": verdict.pipeline_version,
        "policy_version": verdict.policy_version,
        "policy_versions": dict(verdict.policy_versions),
        "validator_model": verdict.validator_model,
        "prompts": dict(verdict.prompts),
        "pending": list(verdict.pending),
        "unverified": verdict.unverified,
        "validated_at": utc_text(verdict.validated_at),
        "duration_ms": round(verdict.duration_ms, 3),
        **_build_output_fields(verdict),
    }


def _build_output_fields(verdict: Verdict) -> dict[str, Any]:
    """Return the additional fields that senders of LLM outputs read."""
    if verdict.format != OUTPUT:
        return {}
    found = ((issue.layer, issue.severity, issue.message) for issue in verdict.issues)
    return {"validation_passed": verdict.valid, "validation_errors": error_lines(found)}


def _layer_dict(layer: LayerResult) -> dict[str, Any]:
    return {
        "name": layer.name,
        "status": str(layer.status),
        "why": layer.why,
        "duration_ms": round(layer.duration_ms, 3),
    }


def _token_dict(counts: TokenCounts) -> dict[str, Any]:
    return {
        "total": counts.total,
        "budget": counts.budget,
        "declared": counts.declared,
        "tokenizer": counts.tokenizer,
        "estimated": counts.estimated,
        "sections": [
            {"name": section.name, "count": section.count, "target": section.target} for section in counts.sections
        ],
    }


def _chain_dict(chain: ChainFacts) -> dict[str, Any]:
    return {
        "declared": list(chain.declared),
        "derived": None if chain.derived is None else list(chain.derived),
        "derived_complete": chain.derived_complete,
        "shown": list(chain.shown),
        "target": chain.target,
        "loop": list(chain.loop),
        "over_from": chain.over_from,
        "repeats": chain.repeats,
    }


def _critique_dict(critique: Critique) -> dict[str, Any]:
    return {
        "critique_id": critique.critique_id,
        "model_used": critique.model_used,
        "triggered_by": critique.triggered_by,
        "overall_score": critique.overall_score,
        "issues_found": [dict(issue) for issue in critique.issues_found],
        "reasoning": critique.reasoning,
        "cost_usd": critique.cost_usd,
        "latency_ms": round(critique.latency_ms, 3),
        "timestamp": utc_text(critique.timestamp) if critique.timestamp else None,
    }
