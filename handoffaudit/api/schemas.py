"""Schemas of answers about handoffs: receipts, handoffs, verdicts, repairs and attempts."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, WrapValidator

from handoffaudit.accounts.models import Person
from handoffaudit.api.requests import LINKS, NEXT
from handoffaudit.api.serializers import Answer, BareProblemOut, Moment, Nullable, Stored, Text, links
from handoffaudit.handoffs.approvals import ApprovalStatus
from handoffaudit.validation.formats import describe_names


class IssueOut(Answer):
    issue_id: str = Field(description="The finding's id within the verdict.", examples=["issue-1"])
    layer: str = Field(description="The layer that reported the finding.", examples=["chain"])
    severity: str = Field(description="info, warning, error or critical.", examples=["error"])
    code: str = Field(description="The rule code, documented at `links.codes`.", examples=["chain.circular"])
    message: str = Field(description="What is wrong, in one sentence, with the value found.")
    field_path: str = Field(
        description="The place in the document; empty for the whole document.",
        examples=["call_chain[0]"],
    )
    json_pointer: str = Field(description="The same place as a JSON Pointer.", examples=["/call_chain/0"])
    expected: Any = Field(None, description="The allowed value, if known.")
    actual: Any = Field(None, description="The value found.")
    hint: str = Field(description="How to fix the finding.")
    metadata: dict[str, Any] = Field({}, description="Details of this rule code, such as a limit and a count.")


class LayerOut(Answer):
    name: str = Field(description="The layer's name.", examples=["chain"])
    status: str = Field(description="passed, failed, skipped or error.", examples=["passed"])
    why: str = Field("", description="Why the layer was skipped or could not run; else its note, if any.")
    duration_ms: float = Field(description="Run time in milliseconds.")


class ValueOut(Answer):
    """A concrete value in a claim: its position in the text, and the sources that support the value."""

    kind: str = Field(description="number, date, name, quote, identifier, wording or calculation.", examples=["number"])
    start: int = Field(description="Start of the value in `claim_text`, in characters.")
    end: int = Field(description="End of the value in `claim_text`, in characters.")
    text: str = Field(description="The value as written.")
    status: str = Field(
        description="grounded, derived, reported (of unknown origin) or ungrounded.", examples=["grounded"]
    )
    where: list[str] = Field(
        description="The places in context and evidence that contain or imply the value.",
        examples=[["context.order.total"]],
    )
    closest: str = Field(description="The closest match in the sources, if no source contains the value.")


class ClaimOut(Answer):
    claim_id: str = Field(description="The claim's id within the verdict.")
    field_path: str = Field(description="The place in the data.", examples=["summary"])
    json_pointer: str = Field(description="The place in the document as a JSON Pointer.", examples=["/data/summary"])
    claim_text: str = Field(description="The text of the claim, at most 500 characters.")
    claim_type: str = Field(
        description="cited, cites_unknown (none of the cited sources was supplied: counts as uncited), assumption, "
        "uncited or derived.",
        examples=["cited"],
    )
    evidence_ids: list[str] = Field(description="The sources that `evidence_refs` names for the claim.")
    confidence: float = Field(description="The sender's confidence, 0.0 to 1.0.")
    validator_confidence: float = Field(description="The confidence of the check, 0.0 to 1.0; 0.0 if unchecked.")
    values: list[ValueOut] = Field(description="The values in the claim, such as numbers and names.")


class RemediationOut(Answer):
    remediation_id: str = Field(description="The record's id, shared by all attempts of a lineage.")
    validation_id: str = Field(description="The id of the verdict that started the remediation.")
    state: str = Field(
        description="pending, retrying, re_retrieving, escalated, resolved or exhausted.", examples=["retrying"]
    )
    actions_taken: list[dict[str, Any]] = Field(
        description="Each `action` with its `timestamp`; retries have an `attempt`, escalations a `reason`."
    )
    retry_count: int = Field(description="Number of retries requested since the last new retrieval.")
    max_retries: int = Field(description="The limit of `retry_count`.")
    started_at: str = Field(description="When the first verdict requested an action.")
    resolved_at: str | None = Field(description="When the remediation ended; null while it is active.")
    resolution: str | None = Field(description="passed or insufficient_evidence; null while the remediation is active.")


class CritiqueOut(Answer):
    critique_id: str = Field(description="The critique's id.")
    model_used: str = Field(description="The LLM that wrote the critique.", examples=["claude-haiku-5-5"])
    triggered_by: str = Field(description="Why the critique was requested.", examples=["high_notional:75000"])
    overall_score: float = Field(
        description="0.0 to 1.0; a score below the threshold of the handoff type rejects the handoff.", examples=[0.82]
    )
    issues_found: list[dict[str, str]] = Field(description="The findings of the LLM, as written.")
    reasoning: str = Field(description="The reasoning of the LLM.")
    cost_usd: float = Field(description="Estimated cost of the call in US dollars.")
    latency_ms: float = Field(description="Response time of the LLM in milliseconds.")
    timestamp: str | None = Field(description="When the critique was written.")


class VerdictOut(Answer):
    validation_id: str = Field(description="The verdict's id.")
    handoff_id: str = Field(description="The sender's id; the server's id if the sender gave none.")
    valid: bool = Field(
        description="Whether no finding has severity error or critical. Also true for a held handoff: test the "
        "handoff's `state` before you start the next agent."
    )
    outcome: str = Field(description="accepted, rejected or held.", examples=["accepted"])
    strictness: str = Field(description="strict or lenient: which layers judged the handoff.", examples=["strict"])
    mode: str = Field(description="enforce, or shadow: only structure errors reject a handoff.", examples=["enforce"])
    would_decide: str = Field(description="The outcome without shadow mode.", examples=["accepted"])
    structural_issues: list[str] = Field(description="Blocking findings of the structural layers, as `path: message`.")
    semantic_issues: list[str] = Field(
        description="Blocking findings of the semantic layers, in the same form; the last entry is "
        "`semantic_validation_unavailable` if the LLM check is missing (`unverified`)."
    )
    issues: list[IssueOut] = Field(description="All findings, with warnings and notes.")
    claims: list[ClaimOut] = Field(description="The claims in the data and the sources of each claim; at most 500.")
    critique: CritiqueOut | None = Field(None, description="A second opinion of the LLM, if requested.")
    quality_score: float = Field(
        description="1.0 without findings; 0.0 with a structure error; otherwise each critical subtracts 0.30, "
        "error 0.15, warning 0.05.",
        examples=[1.0],
    )
    layers: list[LayerOut] = Field(description="The result of each layer, in the order of the run.")
    token_counts: dict[str, Any] | None = Field(
        description="The `total` and the `budget`, the count that the sender `declared`, and the count of each section."
    )
    chain: dict[str, Any] | None = Field(
        description="The chain as `declared` and as `derived` from earlier handoffs, with the violations."
    )
    remediation: RemediationOut | None = Field(None, description="Remediation of this lineage so far.")
    recommended_action: str | None = Field(
        None, description="accept, accept_with_warnings, retry, re_retrieve, insufficient_evidence or escalate."
    )
    output_hash: str = Field(description="SHA-256 of the judged content.")
    pipeline_version: str = Field(description="The version of the validation.")
    policy_version: int = Field(description="The version of the strictness table.", examples=[3])
    policy_versions: dict[str, int] = Field(
        description="The version of each kind of policy.", examples=[{"strictness": 3, "rules": 1, "schemas": 0}]
    )
    validator_model: str | None = Field(description="The LLM that checked the content; null if none did.")
    prompts: dict[str, str] = Field(
        {}, description="The prompt version that each layer used.", examples=[{"semantic": "grounding-1"}]
    )
    pending: list[str] = Field([], description="Layers that still wait for an LLM.", examples=[[]])
    unverified: bool = Field(
        default=False, description="Whether the LLM check is missing; the check is made later if possible."
    )
    validated_at: str = Field(description="When the handoff was judged.", examples=["2026-02-15T00:15:00Z"])
    duration_ms: float = Field(description="Time to judge in milliseconds, without LLM calls.")
    validation_passed: bool | None = Field(
        None, description="Only in the format `output`: whether no finding has severity error or critical."
    )
    validation_errors: list[str] | None = Field(
        None,
        description="Only in the format `output`: errors and critical findings, as `[layer:severity] message`.",
        examples=[['[business_rule:error] direction is "UP", not one of LONG, SHORT, FLAT.']],
    )


class VerdictsOut(Answer):
    items: list[VerdictOut] = Field(description="The newest 100 verdicts, newest first.")
    next: str | None = Field(description="Always null: the list has one page.")


class ReceiptOut(Answer):
    id: str = Field(description="The server's id of the handoff.", examples=["01963f0e-7a1c-7bb2-8a35-0f4a3c1f2d6e"])
    handoff_id: str = Field(description="The sender's id; the server's id if the sender gave none.", examples=["h-1"])
    state: str = Field(
        description="received, or the current state of a repeated submission.",
        examples=["received"],
    )
    links: dict[str, str] = Field(description=LINKS)


class RejectedOut(BareProblemOut):
    id: str = Field(description="The server's id of the handoff, which is stored as rejected.")
    handoff_id: str = Field(description="The sender's id; the server's id if none was given or readable.")
    state: str = Field(description="Always rejected.", examples=["rejected"])
    issues: list[IssueOut] = Field(description="Why the document is unreadable: findings with place and hint.")
    links: dict[str, str] = Field(description=LINKS)


def _links(_: Any, _handler: Any, info: ValidationInfo) -> dict[str, str]:
    tenant: Any = info.context
    return links(info.data["id"], tenant.slug)


HandoffLinks = Annotated[dict[str, str], WrapValidator(_links)]


def _lineage(lineage: str, info: ValidationInfo) -> Any:
    return lineage or info.data["handoff_id"]


class SummaryOut(Answer):
    id: Text = Field(description="The server's id of the handoff.")
    handoff_id: str = Field(
        description="The sender's id, unique in the tenant. The server's id if the sender gave none, or if the "
        "document was unreadable and a later attempt took the sender's id."
    )
    format: str = Field(description=f"{describe_names()}; empty if the document is unreadable.")
    handoff_type: str = Field(description="The handoff type, which selects the row of the strictness table.")
    source_agent_id: str = Field(description="The source agent.")
    target_agent_id: str = Field(description="The target agent.")
    trace_id: Nullable = Field(description="The trace that the handoff belongs to; null if it has none.")
    parent_handoff_id: Nullable = Field(description="The sender's id of the previous handoff in the trace; null: none.")
    retry_of: Nullable = Field(description="The `handoff_id` of the handoff that this attempt replaces; null: none.")
    attempt: int = Field(description="The attempt number, from 1.")
    lineage: Annotated[str, BeforeValidator(_lineage)] = Field(description="The `handoff_id` of the first attempt.")
    repaired: bool = Field(description="Whether repair created this attempt from the previous attempt.")
    step: int | None = Field(description="The step in the trace, as numbered by the sender; null without a number.")
    state: str = Field(
        description="Test this before you start the next agent: accepted or approved. received, validating: not "
        "judged yet. held: waits for a reviewer. rejected: fix the findings. declined: a reviewer declined the "
        "handoff. superseded: replaced by a later attempt."
    )
    version: int = Field(description="Increases with each change of state; send it as `seen_version` of a decision.")
    would_decide: Nullable = Field(description="The outcome without shadow mode, if it differs; else null.")
    flags: Annotated[dict[str, bool], Stored] = Field(
        description="Marks beside the state: `warnings` (has warnings), `shadowed` (accepted in shadow mode), "
        "`overdue` (held longer than the type allows), `parked` (judging failed several times), `escalated` (a "
        "finding is critical, or retries and repair did not help; first in review), `unverified` (accepted, approved "
        "or held without the LLM check), `flagged` (accepted or approved unverified, and a later check would have "
        "rejected the handoff), `open` (a delegated task whose end is not reported yet)."
    )
    user_approved: bool = Field(
        description="Whether a person approved the handoff, or the sender marked it as approved."
    )
    codes: list[str] = Field(description="The rule codes of the findings, without duplicates.")
    quality_score: float | None = Field(validation_alias="score", description="0.0 to 1.0; null before the verdict.")
    token_count: int | None = Field(description="Tokens of the document; null before the verdict.")
    chain_length: int = Field(description="Number of agents in the chain.")
    size_bytes: int = Field(description="Size of the submission in bytes.")
    timestamp: Moment | None = Field(
        validation_alias="sender_timestamp", description="The sender's timestamp; null if the sender gave none."
    )
    sent_at: Moment | None = Field(
        description="The time that the sender gave for a late handoff. Lists, traces and rates use this time. null if "
        "the sender gave no time within the 7 days before receipt."
    )
    received_at: Moment = Field(description="When the handoff was stored.")
    judged_at: Moment | None = Field(description="When the handoff was last judged; null before the verdict.")
    review_due_at: Moment | None = Field(description="When a held handoff becomes overdue; null: never.")
    links: HandoffLinks = Field(validation_alias="id", description=LINKS)


class ProposalOut(Answer):
    """The first of two decisions, if the handoff's type needs two reviewers."""

    decision: str = Field(description="approve or decline.", examples=["approve"])
    note: str = Field(description="The reviewer's reason.")
    actor: dict[str, str] = Field(
        validation_alias="author",
        description="`kind` (person, key or system) and `name`.",
        examples=[{"kind": "person", "name": "ada"}],
    )
    at: Moment = Field(description="When the decision was proposed.", examples=["2026-02-15T00:20:00Z"])


def _username(person: Person | None) -> str | None:
    return person.get_username() if person else None


class PassedOnOut(Answer):
    by: str = Field(description="Who reassigned the handoff, or marked it as handled.", examples=["ada"])
    to: Annotated[str | None, BeforeValidator(_username)] = Field(
        description="The new reviewer; null if none was named.", examples=["ben"]
    )
    note: str = Field(description="Why the handoff was reassigned.")
    at: Moment = Field(description="When the handoff was reassigned.", examples=["2026-02-15T00:20:00Z"])


class ReplacedByOut(Answer):
    """The attempt that replaced a superseded handoff."""

    id: Text = Field(description="The server's id of the attempt.")
    handoff_id: str = Field(description="The sender's id of the attempt; the server's id for a repaired attempt.")
    state: str = Field(description="The state of the attempt. Use this state.", examples=["accepted"])
    attempt: int = Field(description="The attempt number.", examples=[2])
    repaired: bool = Field(description="Whether repair created the attempt; false if it was sent with `retry_of`.")
    links: HandoffLinks = Field(validation_alias="id", description="Addresses of the attempt, as in `links`.")
    document: Annotated[dict[str, Any] | None, Stored] = Field(
        None,
        description="The repaired document, if `return_repaired` is set for the type, the repaired attempt is "
        "accepted, defaults and hints alone repaired it, and its data is unchanged.",
    )


class ApprovalOut(Answer):
    """The approval of a handoff. The sender may go on once: `POST /handoffs/{reference}/use` uses the approval."""

    status: ApprovalStatus = Field(
        description="valid: the sender may go on. used: the sender went on. expired, or outdated (a policy was saved "
        "after the approval): send the document again with `retry_of`."
    )
    expires_at: Moment = Field(description="When the approval expires.", examples=["2026-02-22T00:15:00Z"])
    used_at: Moment | None = Field(description="When the sender went on; null before.")
    used_by: Nullable = Field(description="The key that used the approval, or the retry that took it over; else null.")


class JudgedOut(SummaryOut):
    approval: ApprovalOut | None = Field(None, description="The approval, if `state` is `approved`.")
    superseded_by: ReplacedByOut | None = Field(None, description="The replacing attempt, if `state` is `superseded`.")
    verdict: Annotated[VerdictOut | None, Stored] = Field(
        None, description="The current verdict; null if there is none."
    )


def is_there(value: Any) -> bool:
    return value is not None


class ReviewedOut(SummaryOut):
    awaits_second: Annotated[bool | None, BeforeValidator(is_there)] = Field(
        None, validation_alias="proposal", description="Whether a decision is proposed and waits for a second reviewer."
    )
    proposal: ProposalOut | None = Field(None, description="The proposed decision and the reviewer who proposed it.")
    passed_on: PassedOnOut | None = Field(
        None, description="The reassignment, or the record that a person marked the handoff as handled; else null."
    )


class TelemetryOut(Answer):
    """How a handoff was found in a trace. The trace arrived after the handoff, so no agent waited for the verdict."""

    text: str = Field(
        description="Where the handoff was read, and what was inferred.",
        examples=["Read from a trace; target inferred from the next agent span."],
    )
    rule: str = Field(description="The rule that found the handoff: attributes, metadata, tool, goto or nesting.")
    inferred: dict[str, str] = Field(
        description="Where an inferred `source`, `target` or `data` comes from.",
        examples=[{"target": "next_agent"}],
    )
    trace_id: str = Field(description="The id of the trace in OpenTelemetry.")
    span_id: str = Field(description="The id of the span at which the handoff was found.")
    span_name: str = Field(description="The name of this span.")


class HandoffOut(ReviewedOut, JudgedOut):
    document: Any = Field(None, description="The document, only when a single handoff is requested; null if not JSON.")
    raw: str | None = Field(None, description="The document as text, if it is not JSON.")
    original_sha256: str | None = Field(None, description="SHA-256 of the bytes sent.")
    removed_at: str | None = Field(None, description="When retention deleted the document; the verdict stays.")
    lifted: Annotated[dict[str, Any] | None, Stored] = Field(
        None,
        description="The judged document, if it is not the document sent: lifted to the current format version, or the "
        "handoff file of a report.",
    )
    context: Annotated[dict[str, Any] | None, Stored] = Field(None, description="The `context` sent.")
    evidence: Annotated[list[Any] | None, Stored] = Field(None, description="The `evidence` sent.")
    reason: str | None = Field(None, description="The `reason` sent beside the document.")
    telemetry: TelemetryOut | None = Field(None, description="How the handoff was found in a trace of OpenTelemetry.")


class ChangeOut(Answer):
    field_path: str = Field(description="The place of the change.", examples=["data.summary"])
    json_pointer: str = Field(description="The same place as a JSON Pointer.", examples=["/data/summary"])
    kind: str = Field(description="added, removed or changed.", examples=["changed"])
    before: Any = Field(None, description="The value before; null if added.")
    after: Any = Field(None, description="The value after; null if removed.")
    why: str = Field("", description="Why repair made the change; empty for a sender's change.")


class HandoffsOut(Answer):
    items: list[SummaryOut] = Field(description="The handoffs in the order of `sort`, by default the newest first.")
    next: str | None = Field(description=NEXT)
