"""The question whether a deliverable meets the objective that it was asked for with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from handoffaudit.validation.asking.answers import answered_object, share, word
from handoffaudit.validation.asking.fencing import as_text, fenced
from handoffaudit.validation.asking.prompting import Prompt, instructions, shipped
from handoffaudit.validation.asking.question import MalformedAnswer, Question, Role, Use
from handoffaudit.validation.text import clean_or_empty

LONGEST_REASONING = 4000
PASSED: Final = "PASSED"
FAILED: Final = "FAILED"


@dataclass(frozen=True, slots=True)
class Objective:
    """Whether the objective is met; `confidence` from 0.0 to 1.0."""

    met: bool
    reasoning: str
    confidence: float


SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": [PASSED, FAILED]},
        "reasoning": {"type": "string"},
        "confidence": {"type": "number"},
    },
    "required": ["status", "reasoning", "confidence"],
    "additionalProperties": False,
}


def question(objective: str, deliverable: Any, asked: Prompt | None = None, *, role: Role = Role.FAST) -> Question:
    """About what was handed back, beside what was asked for."""
    chosen = asked or shipped(Use.OBJECTIVE)
    return Question(
        use=Use.OBJECTIVE,
        role=role,
        prompt=chosen.name,
        instructions=instructions(Use.OBJECTIVE, chosen),
        content="\n\n".join((fenced("objective", as_text(objective)), fenced("deliverable", as_text(deliverable)))),
        schema=SCHEMA,
        read=read,
    )


def read(text: str) -> Objective:
    """What the model found. Raises `MalformedAnswer`."""
    answer = answered_object(text)
    status = word(answer, "status").upper()
    if status not in (PASSED, FAILED):
        raise MalformedAnswer('"status" is neither PASSED nor FAILED.')
    reasoning = clean_or_empty(answer.get("reasoning"), LONGEST_REASONING)
    return Objective(status == PASSED, reasoning, share(answer, "confidence"))
