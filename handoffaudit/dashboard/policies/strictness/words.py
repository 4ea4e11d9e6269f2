"""Policies in words: what each field of the strictness table is called and means, and what a version changed."""

from collections.abc import Iterable
from typing import Any

from handoffaudit.dashboard.policies import words
from handoffaudit.dashboard.policies.words import Line
from handoffaudit.policy.strictness import AMOUNTS, CHOICES, FIELDS
from handoffaudit.policy.versions import WHOLE_ROW, Change
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS

NAMES = {
    "handoff_type": "Handoff type",
    "strictness": "Strictness",
    "mode": "Mode",
    "layers": "Layers",
    "token_budget": "Token budget",
    "output_token_budget": "Token budget of outputs",
    "approval_length": "Approval length",
    "recommended_length": "Recommended length",
    "circular_policy": "Circular chains",
    "evidence": "Citations",
    "max_uncited_ratio": "Uncited share",
    "grounding": "Grounding",
    "confidence_floor": "Confidence floor",
    "repair": "Repair what is rejected",
    "max_retries": "Retries",
    "max_re_retrievals": "Re-retrievals",
    "auto_escalate_on_critical": "Escalate what is critical",
    "min_severity_to_remediate": "Remediate from",
    "hold_limit_hours": "Hold limit",
    "four_eyes": "Four eyes",
    "fail_mode": "Without the model",
    "objective_confidence": "Objective confidence",
    "careful_above": "Careful model above",
    "critique": "Critique",
    "critique_notional_usd": "Critique from (USD)",
    "critique_score_floor": "Critique below score",
    "critique_model": "Critique by",
    "critique_max_usd": "Critique may cost (USD)",
    "critique_threshold": "Critique threshold",
    **{f"layers.{layer}": f"Layer {layer}" for layer in OPTIONAL_LAYERS},
}
HELP = {
    "handoff_type": "As senders write it, e.g. deal_data.",
    "strictness": "lenient leaves out evidence, grounding and the model's check",
    "mode": "shadow accepts, and keeps what it would have decided",
    "layers": "structure always runs",
    "token_budget": "tokens; above: rejected",
    "output_token_budget": "tokens of a handoff in the output format; above: rejected",
    "approval_length": "agents; a longer chain is held",
    "recommended_length": "agents; a longer chain is warned of",
    "circular_policy": "when the target is in the chain already, and a reason is given",
    "evidence": "required asks every handoff, where_given those that cite at all",
    "max_uncited_ratio": "0.0 to 1.0 of all claims; above: rejected",
    "grounding": "a value of a claim that stands in no source: warned of, or rejected",
    "confidence_floor": "0.0 to 1.0; below: warned of",
    "repair": "without being asked; what passes is a new attempt",
    "max_retries": "0 to 100; how often the sender is asked to try again",
    "max_re_retrievals": "0 to 100; how often it is asked for other sources after that",
    "auto_escalate_on_critical": "to a person at once, without a retry",
    "min_severity_to_remediate": "issues less severe ask nothing of the sender",
    "hold_limit_hours": "hours held until overdue",
    "four_eyes": "a decision takes effect once a second person has made the same one",
    "fail_mode": "when the model cannot be asked: open lets it pass, marked unverified; closed holds it",
    "objective_confidence": "0.0 to 1.0; an objective met with less counts as not met; 0.0: never; suggested: 0.7",
    "careful_above": "characters of objective and deliverable together; above: the careful model judges; 0: never",
    "critique": "outputs: of the output format, where triggered; triggered: of any format; always: without a trigger",
    "critique_notional_usd": "USD in notional_usd of the context or the data; this and more triggers a critique",
    "critique_score_floor": "0.0 to 1.0; a score so far below it triggers a critique; 0.0: never",
    "critique_model": "the fast model or the careful one; the settings name both",
    "critique_max_usd": "USD for one critique, estimated before it is asked for; above: left out, and warned of",
    "critique_threshold": "0.0 to 1.0; a critique's score below it rejects",
}
GROUPS = {
    "Judging": ("strictness", "mode", "layers"),
    "Size and chain": (
        "token_budget",
        "output_token_budget",
        "approval_length",
        "recommended_length",
        "circular_policy",
    ),
    "Claims": ("evidence", "max_uncited_ratio", "grounding", "confidence_floor"),
    "Remediation and review": (
        "repair",
        "max_retries",
        "max_re_retrievals",
        "min_severity_to_remediate",
        "auto_escalate_on_critical",
        "hold_limit_hours",
        "four_eyes",
    ),
}
MODEL = "The model's part"
FOLDED = {
    MODEL: (
        "fail_mode",
        "objective_confidence",
        "careful_above",
        "critique",
        "critique_model",
        "critique_notional_usd",
        "critique_score_floor",
        "critique_threshold",
        "critique_max_usd",
    )
}
PLAIN_ENOUGH = ("strictness", "mode", "layers")


def type_name(handoff_type: str) -> str:
    return "any other type" if handoff_type == ANY_OTHER_TYPE else handoff_type


def lines(changes: Iterable[Change]) -> list[Line]:
    return [_line(change) for change in changes]


def choices(field: str) -> list[str]:
    return list(CHOICES[field])


def shown(field: str, value: Any) -> str:
    """A value as text; a switch as on or off."""
    if field == "layers" and isinstance(value, dict):
        off = [layer for layer, on in value.items() if not on]
        return f"without {', '.join(off)}" if off else "all layers"
    if field in AMOUNTS and isinstance(value, int | float):
        return usd(value)
    return words.shown(value)


def usd(amount: float) -> str:
    """Dollars as people write them: 50,000 or 0.10."""
    return f"{amount:,.0f}" if float(amount).is_integer() else f"{amount:,.2f}" if amount >= 0.01 else f"{amount:.4g}"


def _line(change: Change) -> Line:
    name = type_name(change.row)
    if change.field == WHOLE_ROW:
        return Line(name, WHOLE_ROW, _row(change.old), _row(change.new))
    field = NAMES.get(change.field, words.place(change.field))
    return Line(name, field, shown(change.field, change.old), shown(change.field, change.new))


def _row(row: Any) -> str | None:
    if row is None:
        return None
    if not isinstance(row, dict) or "strictness" not in row:
        return shown(WHOLE_ROW, row)
    # In the order of the table: PostgreSQL keeps JSON in one of its own.
    return ", ".join(_value(field, row[field]) for field in FIELDS if field in row and field != "handoff_type")


def _value(field: str, value: Any) -> str:
    if field in PLAIN_ENOUGH:
        return shown(field, value)
    return f"{NAMES[field].lower()} {shown(field, value)}"
