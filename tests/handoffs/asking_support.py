"""Questions to ask the LLM."""

from typing import Any

from handoffaudit.validation.prompts.question import Question, Role, Use, parse_answer

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
            "read": parse_answer,
            **changes,
        }
    )
