"""Lines of public corpora, and helpers that compute statistics from them."""

from functools import partial
from typing import Any

from evals.kinds import KINDS
from tests.evaluation import support

measured = partial(support.measured, kinds=KINDS)


def chat(*turns: tuple[str, str], mistake_step: int) -> Any:
    return {
        "trace_id": "chat-1",
        "question": "What does the order cost?",
        "ground_truth": "240 EUR",
        "mistake_step": mistake_step,
        "mistake_reason": "it guessed",
        "mistake_agent": "solver",
        "turns": [
            {"step": step, "agent": agent, "kind": "message", "to": None, "content": content}
            for step, (agent, content) in enumerate(turns)
        ],
    }
