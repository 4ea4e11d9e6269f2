"""The question whether what is handed over is supported, made up, or in contradiction with itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from handoffaudit.validation.asking.answers import answered_object, listed, word
from handoffaudit.validation.asking.fencing import as_text, fenced
from handoffaudit.validation.asking.prompting import Prompt, instructions, shipped
from handoffaudit.validation.asking.question import MalformedAnswer, Question, Role, Use
from handoffaudit.validation.asking.relevance import relevant
from handoffaudit.validation.bounding import MAX_ISSUES
from handoffaudit.validation.text import clean, clean_or_empty, shown

LONGEST_REASON = 600
LONGEST_QUOTE = 500


class Doubt(StrEnum):
    UNSUPPORTED = "unsupported"
    FABRICATED = "fabricated"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True)
class Doubted:
    """One claim that the model doubts. `field` is its dotted path in the data as the model wrote it, `quote` the
    claim's words; each may be empty."""

    kind: Doubt
    field: str
    quote: str
    reason: str


@dataclass(frozen=True, slots=True)
class Grounding:
    valid: bool
    doubted: tuple[Doubted, ...] = ()


SCHEMA: Final[Mapping[str, Any]] = {
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


def question(
    data: Any, context: Any, evidence: Any, asked: Prompt | None = None, *, role: Role = Role.FAST
) -> Question:
    """About `data`, beside what it must rest on; `context` and `evidence` may be empty."""
    chosen = asked or shipped(Use.GROUNDING)
    return Question(
        use=Use.GROUNDING,
        role=role,
        prompt=chosen.name,
        instructions=instructions(Use.GROUNDING, chosen),
        content=content(data, context, evidence),
        schema=SCHEMA,
        read=read,
    )


def content(data: Any, context: Any, evidence: Any = None) -> str:
    """What agents wrote, each part between tags of its own."""
    parts = [fenced("context", relevant(context, data)) if context else "No context is given."]
    if evidence:
        parts.append(fenced("evidence", relevant(evidence, data)))
    return "\n\n".join([*parts, fenced("data", as_text(data))])


def read(text: str) -> Grounding:
    """What the model found. Raises `MalformedAnswer`."""
    answer = answered_object(text)
    valid = answer.get("valid")
    if not isinstance(valid, bool):
        raise MalformedAnswer('"valid" is neither true nor false.')
    return Grounding(valid, tuple(_doubted(one) for one in listed(answer, "issues")[:MAX_ISSUES]))


def _doubted(issue: Any) -> Doubted:
    """One issue; a plain sentence is a reason."""
    if not isinstance(issue, dict):
        reason = clean(issue, LONGEST_REASON) if isinstance(issue, str) else shown(issue)
        return Doubted(Doubt.UNSUPPORTED, "", "", reason)
    kind = word(issue, "kind")
    return Doubted(
        kind=Doubt(kind) if kind in set(Doubt) else Doubt.UNSUPPORTED,
        field=clean_or_empty(issue.get("field")),
        quote=clean_or_empty(issue.get("quote"), LONGEST_QUOTE),
        reason=clean_or_empty(issue.get("reason"), LONGEST_REASON),
    )
