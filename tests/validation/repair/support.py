"""A helper that repairs a document and checks everything that must hold of any repair."""

import copy
from typing import Any

import orjson

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.json_text import compact
from handoffaudit.validation.repair import Means, Repair, budget_of, repair, repair_to_dict
from handoffaudit.validation.tokenizers import default_counter
from handoffaudit.validation.verdict import Verdict
from tests.validation.support import NOW, judge, record_of, universal

NEW_ID = "6fa459ea-ee8a-4ca4-894e-db77e160355e"


def repaired(document: Document, form: str | None = None, policy: dict[str, Any] | None = None, **means: Any) -> Repair:
    """Judge and repair a document, check everything that must hold of any repair, and return the repair."""
    name = form or record_of(document).format
    before = copy.deepcopy(document)
    given_policy = policy or {}
    judged: list[Document] = []

    def verdict_on(candidate: Document) -> Verdict:
        judged.append(candidate)
        return judge(candidate, name, policy=given_policy)

    first = judge(document, name, policy=given_policy)
    budget = budget_of(TypePolicy("*", **given_policy), default_counter())
    given_means = Means(budget=budget, now=NOW, new_id=lambda: NEW_ID, **means)
    found = repair(document, first, name, judge=verdict_on, means=given_means)

    assert compact(document) == compact(before)
    assert len(judged) <= 7
    if found.repaired:
        candidate = found.repaired
        assert candidate.verdict.valid
        assert candidate.verdict.quality_score >= first.quality_score
        again = repair(candidate.document, candidate.verdict, name, judge=verdict_on, means=given_means)
        assert (again.status, again.attempts) == ("not_needed", ())
    orjson.dumps({**repair_to_dict(found), "document": None})
    return found


def without(*path: str) -> dict[str, Any]:
    document = universal()
    held = document
    for key in path[:-1]:
        held = held[key]
    del held[path[-1]]
    return document


def candidate(found: Repair) -> dict[str, Any]:
    assert found.repaired is not None, [attempt.errors for attempt in found.attempts]
    return found.repaired.document
