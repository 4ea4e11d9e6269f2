"""Questions of the LLM layers: whether the data is supported, the objective is met, and the output is good."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from handoffaudit.validation.issues import MAX_ISSUES, Severity
from handoffaudit.validation.prompts.question import (
    MalformedAnswer,
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

LONGEST_REASON = 600

LONGEST_QUOTE = 500


class Doubt(StrEnum):
    UNSUPPORTED = "unsupported"
    FABRICATED = "fabricated"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True)
class Doubted:
    """One claim that the LLM doubts.

    `field` is the dotted path of the claim as the LLM wrote it, and `quote` the words of the claim. Both may be empty.
    """

    kind: Doubt
    field: str
    quote: str
    reason: str


@dataclass(frozen=True, slots=True)
class Grounding:
    valid: bool
    doubted: tuple[Doubted, ...] = ()


GROUNDING_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "valid": {"type": "boolean"},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "field": {"type": "string"},
                    "kind": {"type": "string", "enum": [doubt.value for doubt in Doubt]},
                    "quote": {"type": "string"},
                    "reason": {"type": "string"},
                },
                "required": ["field", "kind", "quote", "reason"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["valid", "issues"],
    "additionalProperties": False,
}


def grounding_question(
    data: Any, context: Any, evidence: Any, custom: Prompt | None = None, *, role: Role = Role.FAST
) -> Question:
    """Return the question whether `data` is supported. `context` and `evidence` may be empty."""
    chosen = custom or default_prompt(Use.GROUNDING)
    return Question(
        use=Use.GROUNDING,
        role=role,
        prompt=chosen.name,
        instructions=build_instructions(Use.GROUNDING, chosen),
        content=grounding_content(data, context, evidence),
        schema=GROUNDING_SCHEMA,
        read=read_grounding,
    )


def grounding_content(data: Any, context: Any, evidence: Any = None) -> str:
    """Return the texts of agents, each part between its own tags."""
    parts = [fence("context", select_relevant(context, data)) if context else "No context is given."]
    if evidence:
        parts.append(fence("evidence", select_relevant(evidence, data)))
    return "\n\n".join([*parts, fence("data", as_text(data))])


def read_grounding(text: str) -> Grounding:
    """Return the LLM's judgement of the data. Raises `MalformedAnswer`."""
    answer = parse_answer(text)
    valid = answer.get("valid")
    if not isinstance(valid, bool):
        raise MalformedAnswer('"valid" is neither true nor false.')
    return Grounding(valid, tuple(_read_doubt(one) for one in read_list(answer, "issues")[:MAX_ISSUES]))


def _read_doubt(issue: Any) -> Doubted:
    """Return one issue; a plain sentence becomes a reason without field and quote."""
    if not isinstance(issue, dict):
        reason = clean(issue, LONGEST_REASON) if isinstance(issue, str) else show(issue)
        return Doubted(Doubt.UNSUPPORTED, "", "", reason)
    kind = read_word(issue, "kind")
    return Doubted(
        kind=Doubt(kind) if kind in set(Doubt) else Doubt.UNSUPPORTED,
        field=clean_or_empty(issue.get("field")),
        quote=clean_or_empty(issue.get("quote"), LONGEST_QUOTE),
        reason=clean_or_empty(issue.get("reason"), LONGEST_REASON),
    )


LONGEST_REASONING = 4000

PASSED: Final = "PASSED"

FAILED: Final = "FAILED"


@dataclass(frozen=True, slots=True)
class Objective:
    """The LLM's judgement whether the objective is met.

    `confidence` is between 0.0 and 1.0.
    """

    met: bool
    reasoning: str
    confidence: float


OBJECTIVE_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": [PASSED, FAILED]},
        "reasoning": {"type": "string"},
        "confidence": {"type": "number"},
    },
    "required": ["status", "reasoning", "confidence"],
    "additionalProperties": False,
}


def objective_question(
    objective: str, deliverable: Any, custom: Prompt | None = None, *, role: Role = Role.FAST
) -> Question:
    """Return the question whether `deliverable` meets `objective`."""
    chosen = custom or default_prompt(Use.OBJECTIVE)
    return Question(
        use=Use.OBJECTIVE,
        role=role,
        prompt=chosen.name,
        instructions=build_instructions(Use.OBJECTIVE, chosen),
        content="\n\n".join((fence("objective", as_text(objective)), fence("deliverable", as_text(deliverable)))),
        schema=OBJECTIVE_SCHEMA,
        read=read_objective,
    )


def read_objective(text: str) -> Objective:
    """Return the LLM's judgement of the deliverable. Raises `MalformedAnswer`."""
    answer = parse_answer(text)
    status = read_word(answer, "status").upper()
    if status not in (PASSED, FAILED):
        raise MalformedAnswer('"status" is neither PASSED nor FAILED.')
    reasoning = clean_or_empty(answer.get("reasoning"), LONGEST_REASONING)
    return Objective(status == PASSED, reasoning, read_share(answer, "confidence"))


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
    """The critique: a second opinion of the LLM on the output.

    `score` is between 0.0 and 1.0.
    """

    score: float
    remarks: tuple[Remark, ...]
    reasoning: str


OPINION_SCHEMA: Final[Mapping[str, Any]] = {
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


def opinion_question(
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
        schema=OPINION_SCHEMA,
        read=read_opinion,
        max_cost_usd=max_cost_usd,
    )


def read_opinion(text: str) -> Opinion:
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
