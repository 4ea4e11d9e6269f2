"""Questions to put to the model."""

from typing import Any

from handoffaudit.validation.asking.answers import answered_object
from handoffaudit.validation.asking.question import Question, Role, Use

FAST = "claude-haiku-5-5"
SCHEMA = {"type": "object", "additionalProperties": False, "properties": {"valid": {"type": "boolean"}}}


def question(content: str = "Three suppliers deliver.", **changes: Any) -> Question:
    return Question(
        **{
            "use": Use.GROUNDING,
            "role": Role.FAST,
            "prompt": "grounding@1",
            "instructions": "Is it so?",
            "content": content,
            "schema": SCHEMA,
            "read": answered_object,
            **changes,
        }
    )
