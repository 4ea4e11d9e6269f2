"""Response schemas of the API: receipts, handoffs, problems, verdicts, repairs and attempts."""

from typing import Any

from ninja import Schema
from pydantic import Field

from handoffaudit.api.requests import CODES, LINKS


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
    """A concrete value in a claim: its position in the text, and the sources that support the value."""

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


class ReceiptOut(Schema):
    id: str = Field(description="The product's id of the handoff.", examples=["01963f0e-7a1c-7bb2-8a35-0f4a3c1f2d6e"])
    handoff_id: str = Field(description="The sender's id; the product's where it gave none.", examples=["h-1"])
    state: str = Field(
        description="received: it is judged in some milliseconds; of a repetition, the state that it has now.",
        examples=["received"],
    )
    links: dict[str, str] = Field(description=LINKS)


class BareProblemOut(Schema):
    type: str = Field(
        description="The address at which this kind of problem is told, readable without an account; `about:blank` "
        "where HTTP itself says all.",
        examples=["/help/problems/not-found/"],
    )
    title: str = Field(description="What is wrong, in a few words; the same for all problems of this kind.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong in this very case, and what to do.")


class RefusedValueOut(Schema):
    """A value that was refused."""

    row: str | None = Field(None, description="Of a table: the name of its row.")
    field: str = Field(description="The parameter, or the field of the body with its place.", examples=["limit"])
    value: Any = Field(description="What was sent, cut to size; null where nothing was.", examples=["0"])
    message: str = Field(description="What is wrong, in a sentence.", examples=['"0" is too small.'])
    remedy: str = Field(description="What would be right.", examples=["Send 1 or more."])


class ProblemOut(BareProblemOut):
    errors: list[RefusedValueOut] | None = Field(None, description="Each value that was refused, where some were.")
    field: str | None = Field(None, description="Where a single value was refused: its name, as in `errors`.")
    value: Any = Field(None, description="Of a single refused value: what was sent.")
    remedy: str | None = Field(None, description="Of a single refused value: what would be right.")


class RejectedOut(BareProblemOut):
    id: str = Field(description="The product's id: it is kept as rejected.")
    handoff_id: str = Field(description="The sender's id; the product's where it gave none or it could not be read.")
    state: str = Field(description="Always rejected.", examples=["rejected"])
    issues: list[IssueOut] = Field(description="Why it can't be read, each with its place and a hint.")
    links: dict[str, str] = Field(description=LINKS)


class BatchItemOut(Schema):
    status: int = Field(description="As the same document alone would be answered", examples=[202])
    links: dict[str, str] = Field({}, description="`self` and `page`, where it was stored.")
    id: str = Field(description="The product's id; empty where nothing was stored.")
    handoff_id: str = Field(description="The sender's id; the product's where it gave none.")
    state: str = Field(description="The state that it has now; empty where nothing was stored.")
    issues: list[IssueOut] = Field([], description="Why it can't be read, where its status is 422.")
    title: str = Field("", description="What is wrong, where it was refused (403, 409, 413).")
    detail: str = Field("", description="What to do about that.")


class BatchOut(Schema):
    items: list[BatchItemOut] = Field(description="In the order in which they were sent.")
    totals: dict[str, int] = Field(description="How many items have each status.", examples=[{"202": 499, "422": 1}])
    links: dict[str, str] = Field(
        description=CODES, examples=[{"codes": "https://audit.example.com/help/codes/{code}/"}]
    )


class SummaryOut(Schema):
    id: str = Field(description="The product's id.")
    handoff_id: str = Field(
        description="The sender's id, unique in the tenant; the product's where it gave none, or where it could not be "
        "read and gave its id to what was sent after it."
    )
    format: str = Field(
        description="payload, universal, output, delegation, claude-code or handoff-file; empty where it could not be "
        "read."
    )
    handoff_type: str = Field(description="What the strictness table is looked up by.")
    source_agent_id: str = Field(description="Who handed over.")
    target_agent_id: str = Field(description="Who receives.")
    trace_id: str | None = Field(description="The piece of work that it belongs to.")
    parent_handoff_id: str | None = Field(description="The handoff before it, by the sender's id.")
    retry_of: str | None = Field(description="The handoff whose place this one takes, by its `handoff_id`.")
    attempt: int = Field(description="Which try it is, from 1.")
    lineage: str = Field(description="The handoff_id of the first attempt")
    repaired: bool = Field(description="Made by repair from the attempt before it")
    step: int | None = Field(description="Its place in the work, as the sender counts.")
    state: str = Field(
        description="The one to test before the next agent starts: accepted or approved. received, "
        "validating: not judged yet. held: a person decides. rejected: mend it. declined: a person said no. "
        "superseded: a later attempt took its place."
    )
    version: int = Field(description="Counts the changes of state; `seen_version` of a decision.")
    would_decide: str | None = Field(
        description="rejected or held: what shadow mode let pass; null where it let nothing pass."
    )
    flags: dict[str, bool] = Field(
        description="What stands beside the state: `warnings` (has some), `shadowed` (let pass in shadow mode), "
        "`overdue` (held longer than its type may be), `parked` (judging failed several times), `escalated` (its "
        "sender can't mend it any more: shown first in review), `unverified` (the model could not be asked), `flagged` "
        "(accepted unverified, and a later check would have rejected it), `open` (its end was never reported)."
    )
    user_approved: bool = Field(description="A person approved it, or its sender says so.")
    codes: list[str] = Field(description="What was found in it, each code once.")
    quality_score: float | None = Field(description="0.0 to 1.0; null while it is not judged.")
    token_count: int | None = Field(description="Tokens of the document; null while it is not judged.")
    chain_length: int = Field(description="How many agents its chain has.")
    size_bytes: int = Field(description="Bytes of what was sent.")
    timestamp: str | None = Field(description="The sender's clock; null where it gave none.")
    received_at: str = Field(description="When it was stored.")
    judged_at: str | None = Field(description="When it was judged last; null while it is not.")
    review_due_at: str | None = Field(description="When it is overdue, where it is held.")
    links: dict[str, str] = Field(description=LINKS)


class ProposalOut(Schema):
    """The first of two decisions, if the handoff's type needs two reviewers."""

    decision: str = Field(description="approve or decline", examples=["approve"])
    note: str = Field(description="Why.")
    actor: dict[str, str] = Field(
        description="`kind` (person, key or system) and `name`.", examples=[{"kind": "person", "name": "ada"}]
    )
    at: str = Field(description="When.", examples=["2026-02-15T00:20:00Z"])


class PassedOnOut(Schema):
    by: str = Field(description="Who passed it on.", examples=["ada"])
    to: str | None = Field(description="Nobody in particular: null", examples=["ben"])
    note: str = Field(description="Why.")
    at: str = Field(description="When.", examples=["2026-02-15T00:20:00Z"])


class ReplacedByOut(Schema):
    """The attempt that replaced a superseded handoff."""

    id: str = Field(description="The product's id of it.")
    handoff_id: str = Field(description="The sender's id of it; of a repaired one, the product's.")
    state: str = Field(description="Its state: this is the one to go by.", examples=["accepted"])
    attempt: int = Field(description="Which try it is.", examples=[2])
    repaired: bool = Field(description="Made by repair; else it was sent with `retry_of`.")
    links: dict[str, str] = Field(description="Its addresses, as in `links`.")


class HandoffOut(SummaryOut):
    superseded_by: ReplacedByOut | None = Field(
        None, description="Where the state is `superseded`: the attempt that took its place, with its state."
    )
    awaits_second: bool | None = Field(None, description="A decision is proposed, and a second person makes it")
    proposal: ProposalOut | None = Field(None, description="What is proposed, and by whom")
    passed_on: PassedOnOut | None = Field(None, description="Out of the queue without being judged")
    verdict: VerdictOut | None = Field(None, description="The verdict in force; null while there is none.")
    document: Any = Field(None, description="Only where one handoff is asked for")
    raw: str | None = Field(None, description="What was sent, where it is not JSON")
    original_sha256: str | None = Field(None, description="SHA-256 of the bytes that were sent.")
    removed_at: str | None = Field(
        None, description="When retention removed what was sent: `document` is null then, and what was said of it stays"
    )
    lifted: dict[str, Any] | None = Field(None, description="The document in the current version, where it was adapted")
    context: dict[str, Any] | None = Field(None, description="What was sent as `context`.")
    evidence: list[Any] | None = Field(None, description="What was sent as `evidence`.")


class ChangeOut(Schema):
    field_path: str = Field(description="Where.", examples=["data.summary"])
    json_pointer: str = Field(description="The same place as a JSON Pointer.", examples=["/data/summary"])
    kind: str = Field(description="added, removed or changed", examples=["changed"])
    before: Any = Field(None, description="What stood there; null where it is added.")
    after: Any = Field(None, description="What stands there; null where it is removed.")
    why: str = Field("", description="Why repair changed it; empty of what a sender changed.")


class TryOut(Schema):
    number: int = Field(description="Which try, from 1.", examples=[1])
    name: str = Field(description="What it does.", examples=["defaults and hints"])
    note: str = Field(description="Why a try found nothing to do")
    valid: bool = Field(description="No issue of the candidate is an error.")
    outcome: str = Field(description="What the candidate would be: accepted, rejected or held.", examples=["accepted"])
    quality_score: float = Field(description="The candidate's, 0.0 to 1.0.")
    changes: list[ChangeOut] = Field(description="All since the document that was sent")
    errors: list[IssueOut] = Field(description="What was still wrong with the candidate.")


class SessionContextOut(Schema):
    path: str = Field(
        description="Where the candidate expects the file.",
        examples=["sessions/17/handoffs/session-context.json"],
    )
    content: dict[str, Any] = Field(description="What `payload.session` held.")


class RepairOut(Schema):
    status: str = Field(description="repaired, not_needed, not_possible or escalated", examples=["repaired"])
    why: str = Field(description="Why nothing is offered, or that nothing had to be.")
    repaired_by: int | None = Field(description="The number of the try that passed")
    document: dict[str, Any] | None = Field(description="The candidate")
    session_context: SessionContextOut | None = Field(
        None, description="The session that was taken out of the candidate, to be stored beside it; else null."
    )
    verdict: VerdictOut | None = Field(description="The verdict on the candidate")
    attempts: list[TryOut] = Field(description="Each try with what it changed.")
    links: dict[str, str] = Field({}, description=CODES)


class AttemptOut(SummaryOut):
    changes: list[ChangeOut] | None = Field(description="Against the attempt before it; null on the first")
    changes_complete: bool = Field(description="All changes are listed.")
    not_compared: str | None = Field(description="Why the two documents were not compared; else null.")


class AttemptsOut(Schema):
    items: list[AttemptOut] = Field(description="The newest twenty of the lineage, the oldest of them first.")
    next: str | None = Field(description="Always null: there is one page.")
    remediation: RemediationOut | None = Field(description="What was asked of the lineage so far.")


class HandoffsOut(Schema):
    items: list[SummaryOut] = Field(description="The newest first.")
    next: str | None = Field(description="The cursor of the next page; null on the last one")


class EventOut(Schema):
    at: str = Field(description="When.")
    actor: dict[str, str] = Field(
        description="Who: `kind` (person, key or system) and `name`.", examples=[{"kind": "person", "name": "ada"}]
    )
    from_state: str | None = Field(description="The state before; null of the first.")
    to_state: str = Field(description="The state after.")
    reason: str = Field(description="Why.")


class EventsOut(Schema):
    items: list[EventOut] = Field(description="The first 500, the oldest first.")
    next: str | None = Field(description="Always null: there is one page.")
