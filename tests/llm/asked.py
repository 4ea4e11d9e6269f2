"""Questions for the tests of the LLM client."""

from dataclasses import replace
from typing import Any

from handoffaudit.validation.prompts import grounding
from handoffaudit.validation.prompts.question import Question

VALID = {"valid": True, "issues": []}


def question(**more: Any) -> Question:
    return replace(grounding.question({"revenue": "9 million"}, {"revenue": "7 million"}, None), **more)
