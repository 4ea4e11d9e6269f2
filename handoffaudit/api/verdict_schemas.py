"""Verdicts as the API answers them, described for its documentation."""

from typing import Any

from ninja import Schema
from pydantic import Field

CODES = "`codes`: where a code is told, readable without an account: a URI template, `{code}` stands for the code."


class IssueOut(Schema):
    issue_id: str = Field(description="Its name within the verdict.", examples=["issue-1"])
    layer: str = Field(description="The layer that found it.", examples=["chain"])
    severity: str = Field(description="info, warning, error or critical.", examples=["error"])
    code: str = Field(
        description="What kind of finding it is; `links.codes` of the answer is where each is told.",
        examples=["chain.circular"],
    )
    message: str = Field(description="What is wrong, in a sentence, with the value seen.")
    field_path: str = Field(
        description="Where in the document, as a person reads it; empty: the document as a whole.",
        examples=["call_chain[0]"],
    )
    json_pointer: str = Field(description="The same place as a JSON Pointer.", examples=["/call_chain/0"])
    expected: Any = Field(None, description="What may stand there, where that can be said.")
    actual: Any = Field(None, description="What stands there.")
    hint: str = Field(description="What would make it pass.")
    metadata: dict[str, Any] = Field({}, description="Facts of this code, such as a limit and what was counted.")


class LayerOut(Schema):
    name: str = Field(description="Its name.", examples=["chain"])
    status: str = Field(description="passed, failed, skipped or error", examples=["passed"])
    why: str = Field("", description="Why it was skipped, or could not run.")
    duration_ms: float = Field(description="How long it took, in milliseconds.")


class ValueOut(Schema):
    """A concrete value of a claim, by its characters in the text, and what it rests on."""

    kind: str = Field(description="number, date, name, quote, identifier or wording.", examples=["number"])
    start: int = Field(description="Where it begins in `claim_text`, in characters.")
    end: int = Field(description="Where it ends there.")
    text: str = Field(description="The value as it stands there.")
    status: str = Field(description="grounded, derived or ungrounded", examples=["grounded"])
    where: list[str] = Field(
        description="The places in context and evidence that have it, or that it follows from.",
        examples=[["context.order.total"]],
    )
    closest: str = Field(description="What comes closest in the sources, where it stands in none.")


class ClaimOut(Schema):
    claim_id: str = Field(description="Its name within the verdict.")
    field_path: str = Field(description="Where in the data.", examples=["summary"])
    json_pointer: str = Field(description="Where in the document, as a JSON Pointer.", examples=["/data/summary"])
    claim_text: str = Field(description="What it says, cut to 500 characters.")
    claim_type: str = Field(
        description="cited, cites_unknown (none of its sources was supplied: counts as uncited), assumption, "
        "uncited or derived.",
        examples=["cited"],
    )
    evidence_ids: list[str] = Field(description="The sources that `evidence_refs` names for it.")
    confidence: float = Field(description="The sender's, 0.0 to 1.0.")
    validator_confidence: float = Field(
        description="How sure the check is, 0.0 to 1.0; 0.0 where nothing looked at it."
    )
    values: list[ValueOut] = Field(description="The numbers, dates, names, quotations and identifiers in it.")


class RemediationOut(Schema):
    remediation_id: str = Field(description="The record's id; all attempts of a lineage share it.")
    validation_id: str = Field(description="The verdict that began it.")
    state: str = Field(
        description="pending, retrying, re_retrieving, escalated, resolved or exhausted.", examples=["retrying"]
    )
    actions_taken: list[dict[str, Any]] = Field(
        description="Each `action` with its `timestamp`; `attempt` of retries, `reason` of escalations."
    )
    retry_count: int = Field(description="How many retries were asked for since the last new retrieval.")
    max_retries: int = Field(description="How many are asked for at most.")
    started_at: str = Field(description="When the first verdict asked for something.")
    resolved_at: str | None = Field(description="When it ended; null while it goes on.")
    resolution: str | None = Field(description="passed or insufficient_evidence; null while it goes on.")


class CritiqueOut(Schema):
    critique_id: str = Field(description="Its id.")
    model_used: str = Field(description="The model that wrote it.", examples=["claude-haiku-5-5"])
    triggered_by: str = Field(description="Why it was asked for.", examples=["high_notional:75000"])
    overall_score: float = Field(description="0.0 to 1.0; below the type's threshold it rejects.", examples=[0.82])
    issues_found: list[dict[str, str]] = Field(description="What the model found, as it wrote it.")
    reasoning: str = Field(description="Why, in its words.")
    cost_usd: float = Field(description="What the call cost, in US dollars, estimated.")
    latency_ms: float = Field(description="How long the model took, in milliseconds.")
    timestamp: str | None = Field(description="When it was written.")


class VerdictOut(Schema):
    validation_id: str = Field(description="The verdict's id.")
    handoff_id: str = Field(description="The sender's id of the handoff; the product's where it gave none.")
    valid: bool = Field(
        description="No issue is an error or critical. True of a held handoff, too: before the next agent starts, test "
        "the handoff's `state`."
    )
    outcome: str = Field(description="accepted, rejected or held", examples=["accepted"])
    strictness: str = Field(description="strict or lenient: which layers judged it.", examples=["strict"])
    mode: str = Field(description="enforce, or shadow: everything readable is accepted.", examples=["enforce"])
    would_decide: str = Field(description="What it would be without shadow mode", examples=["accepted"])
    structural_issues: list[str] = Field(
        description="What stands in the way, of the layers about the form, each as `path: message`."
    )
    semantic_issues: list[str] = Field(
        description="The same of the layers about the content; ends with `semantic_validation_unavailable` where no "
        "LLM could be asked."
    )
    issues: list[IssueOut] = Field(description="Everything that was found, warnings and notes too.")
    claims: list[ClaimOut] = Field(description="What the data states, and what each statement rests on; at most 500.")
    critique: CritiqueOut | None = Field(None, description="A second model's opinion, where one was asked for")
    quality_score: float = Field(
        description="1.0 without findings; a structure error makes it 0.0, each critical takes 0.30, error 0.15, "
        "warning 0.05.",
        examples=[1.0],
    )
    layers: list[LayerOut] = Field(description="How each layer ended, in the order in which they ran.")
    token_counts: dict[str, Any] | None = Field(
        description="`total` against `budget`, what the sender `declared`, and the count of each section."
    )
    chain: dict[str, Any] | None = Field(
        description="The chain as `declared` and as `derived` from earlier handoffs, with what broke a rule."
    )
    remediation: RemediationOut | None = Field(None, description="What was asked of this lineage of attempts so far")
    recommended_action: str | None = Field(
        None, description="accept, accept_with_warnings, retry, re_retrieve, insufficient_evidence or escalate"
    )
    output_hash: str = Field(description="SHA-256 of the content that was judged.")
    pipeline_version: str = Field(description="The version of the validation.")
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
    validated_at: str = Field(description="When it was judged.", examples=["2026-02-15T00:15:00Z"])
    duration_ms: float = Field(description="How long that took, in milliseconds, without a model.")
    validation_passed: bool | None = Field(None, description="Of outputs only: no error was found")
    validation_errors: list[str] | None = Field(
        None,
        description="Of outputs only: errors and criticals, each as `[layer:severity] message`",
        examples=[['[business_rule:error] direction is "UP", not one of LONG, SHORT, FLAT.']],
    )


class VerdictsOut(Schema):
    items: list[VerdictOut] = Field(description="The newest 100, the newest first.")
    next: str | None = Field(description="Always null: there is one page.")


class PreviewOut(VerdictOut):
    links: dict[str, str] = Field(description=CODES)
