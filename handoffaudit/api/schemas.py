"""The API's answers, described for its documentation."""

from typing import Any

from ninja import Schema
from pydantic import Field


class IssueOut(Schema):
    issue_id: str = Field(examples=["issue-1"])
    layer: str = Field(examples=["chain"])
    severity: str = Field(examples=["error"])
    code: str = Field(examples=["chain.circular"])
    message: str
    field_path: str = Field(examples=["call_chain[0]"])
    json_pointer: str = Field(examples=["/call_chain/0"])
    expected: Any = None
    actual: Any = None
    hint: str
    metadata: dict[str, Any] = {}


class LayerOut(Schema):
    name: str = Field(examples=["chain"])
    status: str = Field(description="passed, failed, skipped or error", examples=["passed"])
    why: str = ""
    duration_ms: float


class ValueOut(Schema):
    """A concrete value of a claim, by its characters in the text, and what it rests on."""

    kind: str = Field(examples=["number"])
    start: int
    end: int
    text: str
    status: str = Field(description="grounded, derived or ungrounded", examples=["grounded"])
    where: list[str] = Field(examples=[["context.order.total"]])
    closest: str


class ClaimOut(Schema):
    claim_id: str
    field_path: str = Field(examples=["summary"])
    json_pointer: str = Field(examples=["/data/summary"])
    claim_text: str
    claim_type: str = Field(description="cited, assumption, uncited or derived", examples=["cited"])
    evidence_ids: list[str]
    confidence: float
    validator_confidence: float
    values: list[ValueOut]


class RemediationOut(Schema):
    remediation_id: str
    validation_id: str
    state: str = Field(examples=["retrying"])
    actions_taken: list[dict[str, Any]]
    retry_count: int
    max_retries: int
    started_at: str
    resolved_at: str | None
    resolution: str | None


class CritiqueOut(Schema):
    critique_id: str
    model_used: str = Field(examples=["claude-haiku-5-5"])
    triggered_by: str = Field(examples=["high_notional:75000"])
    overall_score: float = Field(examples=[0.82])
    issues_found: list[dict[str, str]]
    reasoning: str
    cost_usd: float
    latency_ms: float
    timestamp: str | None


class VerdictOut(Schema):
    validation_id: str
    handoff_id: str
    valid: bool
    outcome: str = Field(description="accepted, rejected or held", examples=["accepted"])
    strictness: str = Field(examples=["strict"])
    mode: str = Field(examples=["enforce"])
    would_decide: str = Field(description="What it would be without shadow mode", examples=["accepted"])
    structural_issues: list[str]
    semantic_issues: list[str]
    issues: list[IssueOut]
    claims: list[ClaimOut]
    critique: CritiqueOut | None = Field(None, description="A second model's opinion, where one was asked for")
    quality_score: float = Field(examples=[1.0])
    layers: list[LayerOut]
    token_counts: dict[str, Any] | None
    chain: dict[str, Any] | None
    remediation: RemediationOut | None = Field(None, description="What was asked of this lineage of attempts so far")
    recommended_action: str | None = Field(
        None, description="retry, re_retrieve, escalate, insufficient_evidence or accept_with_warnings"
    )
    output_hash: str
    pipeline_version: str
    policy_version: int = Field(description="The version of the strictness table", examples=[3])
    policy_versions: dict[str, int] = Field(
        description="The version of each kind of policy", examples=[{"strictness": 3, "rules": 1, "schemas": 0}]
    )
    validator_model: str | None = Field(description="The model that checked the content")
    prompts: dict[str, str] = Field(
        {}, description="Which prompt each layer asked by", examples=[{"semantic": "grounding-1"}]
    )
    pending: list[str] = Field(
        [], description="Layers whose model is still being asked: the verdict so far", examples=[[]]
    )
    unverified: bool = Field(default=False, description="The model could not be asked; it is checked again later")
    validated_at: str = Field(examples=["2026-02-15T00:15:00Z"])
    duration_ms: float
    validation_passed: bool | None = Field(None, description="Of outputs only: no error was found")
    validation_errors: list[str] | None = Field(
        None,
        description="Of outputs only: errors and criticals, each as `[layer:severity] message`",
        examples=[['[business_rule:error] direction is "UP", not one of LONG, SHORT, FLAT.']],
    )


class VerdictsOut(Schema):
    items: list[VerdictOut]
    next: str | None


class ReceiptOut(Schema):
    id: str = Field(examples=["01963f0e-7a1c-7bb2-8a35-0f4a3c1f2d6e"])
    handoff_id: str = Field(examples=["h-1"])
    state: str = Field(examples=["received"])
    links: dict[str, str]


class ProblemOut(Schema):
    type: str = Field(examples=["/help/problems/not-found/"])
    title: str
    status: int
    detail: str


class RejectedOut(ProblemOut):
    id: str
    handoff_id: str
    state: str = Field(examples=["rejected"])
    issues: list[IssueOut]
    links: dict[str, str]


class BatchItemOut(Schema):
    status: int = Field(description="As the same document alone would be answered", examples=[202])
    id: str
    handoff_id: str
    state: str
    issues: list[IssueOut] = []
    title: str = ""
    detail: str = ""


class BatchOut(Schema):
    items: list[BatchItemOut]
    totals: dict[str, int] = Field(examples=[{"202": 499, "422": 1}])


class SummaryOut(Schema):
    id: str
    handoff_id: str
    format: str
    handoff_type: str
    source_agent_id: str
    target_agent_id: str
    trace_id: str | None
    parent_handoff_id: str | None
    retry_of: str | None
    attempt: int
    lineage: str = Field(description="The handoff_id of the first attempt")
    repaired: bool = Field(description="Made by repair from the attempt before it")
    step: int | None
    state: str
    version: int
    would_decide: str | None
    flags: dict[str, bool]
    user_approved: bool
    codes: list[str]
    quality_score: float | None
    token_count: int | None
    chain_length: int
    size_bytes: int
    timestamp: str | None
    received_at: str
    judged_at: str | None
    review_due_at: str | None
    links: dict[str, str]


class ProposalOut(Schema):
    """The first of two decisions, where the type needs four eyes."""

    decision: str = Field(description="approve or decline", examples=["approve"])
    note: str
    actor: dict[str, str] = Field(examples=[{"kind": "person", "name": "ada"}])
    at: str = Field(examples=["2026-02-15T00:20:00Z"])


class PassedOnOut(Schema):
    by: str = Field(examples=["ada"])
    to: str | None = Field(description="Nobody in particular: null", examples=["ben"])
    note: str
    at: str = Field(examples=["2026-02-15T00:20:00Z"])


class HandoffOut(SummaryOut):
    awaits_second: bool | None = Field(None, description="A decision is proposed, and a second person makes it")
    proposal: ProposalOut | None = Field(None, description="What is proposed, and by whom")
    passed_on: PassedOnOut | None = Field(None, description="Out of the queue without being judged")
    verdict: VerdictOut | None = None
    document: Any = Field(None, description="Only where one handoff is asked for")
    raw: str | None = Field(None, description="What was sent, where it is not JSON")
    original_sha256: str | None = None
    removed_at: str | None = Field(
        None, description="When retention removed what was sent: `document` is null then, and what was said of it stays"
    )
    lifted: dict[str, Any] | None = Field(None, description="The document in the current version, where it was adapted")
    context: dict[str, Any] | None = None
    evidence: list[Any] | None = None


class ChangeOut(Schema):
    field_path: str = Field(examples=["data.summary"])
    json_pointer: str = Field(examples=["/data/summary"])
    kind: str = Field(description="added, removed or changed", examples=["changed"])
    before: Any = None
    after: Any = None
    why: str = ""


class TryOut(Schema):
    number: int = Field(examples=[1])
    name: str = Field(examples=["defaults and hints"])
    note: str = Field(description="Why a try found nothing to do")
    valid: bool
    outcome: str = Field(examples=["accepted"])
    quality_score: float
    changes: list[ChangeOut] = Field(description="All since the document that was sent")
    errors: list[IssueOut]


class RepairOut(Schema):
    status: str = Field(description="repaired, not_needed, not_possible or escalated", examples=["repaired"])
    why: str
    repaired_by: int | None = Field(description="The number of the try that passed")
    document: dict[str, Any] | None = Field(description="The candidate")
    verdict: VerdictOut | None = Field(description="The verdict on the candidate")
    attempts: list[TryOut]


class AttemptOut(SummaryOut):
    changes: list[ChangeOut] | None = Field(description="Against the attempt before it; null on the first")
    changes_complete: bool
    not_compared: str | None


class AttemptsOut(Schema):
    items: list[AttemptOut]
    next: str | None
    remediation: RemediationOut | None


class HandoffsOut(Schema):
    items: list[SummaryOut]
    next: str | None = Field(description="The cursor of the next page; null on the last one")


class EventOut(Schema):
    at: str
    actor: dict[str, str] = Field(examples=[{"kind": "person", "name": "ada"}])
    from_state: str | None
    to_state: str
    reason: str


class EventsOut(Schema):
    items: list[EventOut]
    next: str | None
