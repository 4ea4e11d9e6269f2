"""Labelled lines, and helpers that compute statistics from them."""

import itertools
import json
from datetime import UTC, datetime
from typing import Any

from handoffaudit.evaluation.items import KINDS, Kinds
from handoffaudit.evaluation.judge import AS_SHIPPED, Judge
from handoffaudit.evaluation.stats import Measured, measure
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.tokenizers import CharacterCounter

NOW = datetime(2026, 2, 1, 8, 1, tzinfo=UTC)


def judge_of(*layers: str, config: ValidationConfig = AS_SHIPPED) -> Judge:
    ticks = itertools.count()
    return Judge(
        layers, counter=CharacterCounter(), now=lambda: NOW, monotonic=lambda: float(next(ticks)), config=config
    )


def measured(
    *lines: Any,
    layers: tuple[str, ...] = ("grounding",),
    show: int = 0,
    beside: Any = None,
    kinds: Kinds = KINDS,
) -> Measured:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    beside = beside or (lambda name: None)
    return measure(enumerate(texts, 1), judge_of(*layers), kinds, beside=beside, show=show)


def grounded(response: str, *, hallucinated: bool, spans: list[tuple[int, int]] | None = None, **more: Any) -> Any:
    return {
        "id": "one",
        "model": "gpt",
        "context": "The order 4711 was placed on 12 March 2024 and costs 240 EUR.",
        "response": response,
        "hallucinated": hallucinated,
        "spans": None if spans is None else [{"start": start, "end": end} for start, end in spans],
        **more,
    }


def reviewed(decision: str, **changes: Any) -> Any:
    document = {
        "source_agent_id": "a",
        "target_agent_id": "b",
        "tenant_id": "default",
        "call_chain": ["a"],
        "handoff_type": "deal_data",
        "data": {"text": "Done."},
    }
    return {"document": {**document, **changes}, "review": {"decision": decision}}
