"""Tests of explicit nulls in `universal`, which read as absent fields with the documented defaults."""

from typing import Any

import jsonschema_rs
import pytest

from handoffaudit.validation.formats import schema
from handoffaudit.validation.formats.universal import lift
from handoffaudit.validation.json_text import compact, sha256_hex
from handoffaudit.validation.tokenizers import estimate
from tests.validation.support import codes, judge, universal

NULLS = [
    {"expires_at": None},
    {"target": {"invocation": None}},
    {"target": {"expected_phase": None}},
    {"payload": {"session": None}},
    {"payload": {"references": None}},
]
ALL_NULLS: dict[str, Any] = {
    "expires_at": None,
    "target": {"invocation": None, "expected_phase": None},
    "payload": {"session": None, "references": None},
}


@pytest.mark.parametrize("sections", [*NULLS, ALL_NULLS])
def test_an_explicit_null_is_judged_like_an_absent_field(sections: dict[str, Any]) -> None:
    verdict, absent = judge(universal(**sections)), judge(universal())
    assert codes(verdict) == codes(absent)
    assert (verdict.outcome, verdict.quality_score) == (absent.outcome, 1.0)


def test_the_published_schema_takes_the_nulls_too() -> None:
    validator = jsonschema_rs.Draft202012Validator(schema("universal-3.0"), validate_formats=True)
    assert validator.is_valid(universal(**ALL_NULLS))


def test_the_payload_hash_is_that_of_the_document_as_it_was_sent() -> None:
    document = universal(**ALL_NULLS)
    document["handoff"]["meta"]["payload_hash"] = f"sha256:{sha256_hex(compact(document['handoff']['payload']))}"
    document["handoff"]["meta"]["token_count"] = round(estimate(compact(document).decode()))
    assert codes(judge(document)) == []


def test_a_lifted_handoff_keeps_its_nulls() -> None:
    old = universal(version="2.0", target={"invocation": None})
    assert codes(judge(lift(old, "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"))) == []


@pytest.mark.parametrize("place", ["source", "context", "meta", "timestamp"])
def test_null_elsewhere_stays_an_error(place: str) -> None:
    document = universal()
    document["handoff"][place] = None
    assert codes(judge(document)) == ["structure.wrong_type"]
