"""The critique question, which asks a second LLM for its opinion of an output."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from handoffaudit.validation.issues import MAX_ISSUES, Severity
from handoffaudit.validation.prompts.question import (
    Prompt,
    Question,
    Role,
    Use,
    as_text,
    build_instructions,
    default_prompt,
    fence,
    parse_answer,
    read_list,
    read_share,
    read_word,
)
from handoffaudit.validation.prompts.relevance import select_relevant
from handoffaudit.validation.text import clean, clean_or_empty, show

LONGEST_REASONING = 4000

LONGEST_MESSAGE = 600

LONGEST_CODE = 80


@dataclass(frozen=True, slots=True)
class Remark:
    """One objection of the LLM to the output.

    `code` is the short name that the LLM chose for the objection.
    """

    code: str
    message: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Opinion:
    """The second LLM's opinion.

    `score` lies from 0.0 to 1.0.
    """

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
    custom: Prompt | None = None,
    *,
    role: Role = Role.FAST,
    max_cost_usd: float | None = None,
) -> Question:
    """Return the question about `output`; `evidence` and `context` may be empty.

    The question is not asked if it would cost more than `max_cost_usd`.
    """
    chosen = custom or default_prompt(Use.CRITIQUE)
    parts = [fence("output", as_text(output))]
    parts += [fence("evidence", select_relevant(evidence, output))] if evidence else []
    parts += [fence("context", select_relevant(context, output))] if context else []
    return Question(
        use=Use.CRITIQUE,
        role=role,
        prompt=chosen.name,
        instructions=build_instructions(Use.CRITIQUE, chosen),
        content="\n\n".join(parts),
        schema=SCHEMA,
        read=read,
        max_cost_usd=max_cost_usd,
    )


def read(text: str) -> Opinion:
    """Return the opinion in the LLM's text. Raises `MalformedAnswer`."""
    answer = parse_answer(text)
    score = read_share(answer, "overall_score")
    remarks = tuple(_remark(one) for one in read_list(answer, "issues")[:MAX_ISSUES])
    return Opinion(score, remarks, clean_or_empty(answer.get("reasoning"), LONGEST_REASONING))


def _remark(issue: Any) -> Remark:
    if not isinstance(issue, dict):
        message = clean(issue, LONGEST_MESSAGE) if isinstance(issue, str) else show(issue)
        return Remark("issue", message, Severity.WARNING)
    severity = read_word(issue, "severity")
    return Remark(
        code=clean_or_empty(issue.get("code"), LONGEST_CODE) or "issue",
        message=clean_or_empty(issue.get("message"), LONGEST_MESSAGE),
        severity=Severity(severity) if severity in set(Severity) else Severity.WARNING,
    )
