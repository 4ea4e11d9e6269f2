"""Questions for the tests of the LLM client."""

from dataclasses import replace
from typing import Any

from handoffaudit.validation.prompts import layer_questions
from handoffaudit.validation.prompts.question import Question

VALID = {"valid": True, "issues": []}


def question(**more: Any) -> Question:
    return replace(layer_questions.grounding_question({"revenue": "9 million"}, {"revenue": "7 million"}, None), **more)
