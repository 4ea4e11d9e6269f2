"""The question what a second model thinks of an output before others act on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from handoffaudit.validation.asking.answers import answered_object, listed, share, word
from handoffaudit.validation.asking.fencing import as_text, fenced
from handoffaudit.validation.asking.prompting import Prompt, instructions, shipped
from handoffaudit.validation.asking.question import Question, Role, Use
from handoffaudit.validation.asking.relevance import relevant
from handoffaudit.validation.bounding import MAX_ISSUES
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.text import clean, clean_or_empty, shown

LONGEST_REASONING = 4000
LONGEST_MESSAGE = 600
LONGEST_CODE = 80


@dataclass(frozen=True, slots=True)
class Remark:
    """What the model holds against the output; `code` is its own short name for it."""

    code: str
    message: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the second model thinks; `score` from 0.0 to 1.0."""

    score: float
    remarks: tuple[Remark, ...]
    reasoning: str


SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "overall_score": {"type": "number"},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                    "severity": {"type": "string", "enum": ["error", "warning"]},
                },
                "required": ["code", "message", "severity"],
                "additionalProperties": False,
            },
        },
        "reasoning": {"type": "string"},
    },
    "required": ["overall_score", "issues", "reasoning"],
    "additionalProperties": False,
}


def question(
    output: Any,
    context: Any,
    evidence: Any,
    asked: Prompt | None = None,
    *,
    role: Role = Role.FAST,
    max_cost_usd: float | None = None,
) -> Question:
    """About `output`; `evidence` and `context` may be empty. Not asked where it would cost more than `max_cost_usd`."""
    chosen = asked or shipped(Use.CRITIQUE)
    parts = [fenced("output", as_text(output))]
    parts += [fenced("evidence", relevant(evidence, output))] if evidence else []
    parts += [fenced("context", relevant(context, output))] if context else []
    return Question(
        use=Use.CRITIQUE,
        role=role,
        prompt=chosen.name,
        instructions=instructions(Use.CRITIQUE, chosen),
        content="\n\n".join(parts),
        schema=SCHEMA,
        read=read,
        max_cost_usd=max_cost_usd,
    )


def read(text: str) -> Opinion:
    """What the model thinks. Raises `MalformedAnswer`."""
    answer = answered_object(text)
    score = share(answer, "overall_score")
    remarks = tuple(_remark(one) for one in listed(answer, "issues")[:MAX_ISSUES])
    return Opinion(score, remarks, clean_or_empty(answer.get("reasoning"), LONGEST_REASONING))


def _remark(issue: Any) -> Remark:
    if not isinstance(issue, dict):
        message = clean(issue, LONGEST_MESSAGE) if isinstance(issue, str) else shown(issue)
        return Remark("issue", message, Severity.WARNING)
    severity = word(issue, "severity")
    return Remark(
        code=clean_or_empty(issue.get("code"), LONGEST_CODE) or "issue",
        message=clean_or_empty(issue.get("message"), LONGEST_MESSAGE),
        severity=Severity(severity) if severity in set(Severity) else Severity.WARNING,
    )
