"""Property tests with any JSON object: nothing raises, and the order of keys has no effect."""

import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation.formats import BY_NAME, read
from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.layers import History
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.verdict import verdict_to_dict
from tests.scale import examples

from .support import PAYLOAD, UNIVERSAL, codes, judge, payload, universal

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
HANDOFF_NAMES = [*UNIVERSAL["handoff"], "expires_at", "tracing", "skill", "handoff_chain", "working", "version"]
NAMES = st.sampled_from(["handoff", *PAYLOAD, *HANDOFF_NAMES]) | st.text(max_size=8)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=8)


def broken(document: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """Return the document with one of its values replaced."""
    held = document
    for key in path[:-1]:
        held = held[key]
    held[path[-1]] = value
    return document


PATHS = [
    *([name] for name in PAYLOAD),
    *(["handoff", name] for name in [*UNIVERSAL["handoff"], "expires_at", "tracing"]),
    *(["handoff", "meta", name] for name in ["token_count", "handoff_chain", "payload_hash", "payload_size_bytes"]),
    *(["handoff", "payload", name] for name in ["working", "session", "references"]),
]
BROKEN = st.builds(
    lambda path, value: broken(universal() if path[0] == "handoff" else payload(), path, value),
    st.sampled_from(PATHS),
    VALUES | OBJECTS,
)


def shuffled(value: Any, source: random.Random) -> Any:
    if isinstance(value, dict):
        pairs = list(value.items())
        source.shuffle(pairs)
        return {key: shuffled(item, source) for key, item in pairs}
    return [shuffled(item, source) for item in value] if isinstance(value, list) else value


@settings(max_examples=examples(150))
@given(document=OBJECTS | BROKEN, form=st.sampled_from(sorted(BY_NAME)), repeats=st.integers(0, 4))
def test_any_object_comes_to_a_verdict(document: dict[str, Any], form: str, repeats: int) -> None:
    history = History(derived=("a", "b"), derived_full=("a", "b", "a", "b"), repeats=repeats)
    verdict = judge(document, form, history=history)

    assert verdict.issues or verdict.outcome == "accepted"
    assert 0.0 <= verdict.quality_score <= 1.0
    text = orjson.dumps(verdict_to_dict(verdict))
    assert b"\\u0000" not in b"".join(orjson.dumps(issue.to_dict()) for issue in verdict.issues)
    assert orjson.loads(text)["valid"] is verdict.valid


@settings(max_examples=examples(100))
@given(document=OBJECTS | BROKEN, form=st.sampled_from(sorted(BY_NAME)), seed=st.integers(0, 99))
def test_the_order_of_keys_does_not_matter(document: dict[str, Any], form: str, seed: int) -> None:
    first = judge(document, form)
    second = judge(shuffled(document, random.Random(seed)), form)  # noqa: S311

    assert first.outcome == second.outcome
    assert sorted(codes(first)) == sorted(codes(second))
    assert first.output_hash == second.output_hash


@settings(max_examples=examples(100))
@given(document=OBJECTS | BROKEN)
def test_record_texts_can_be_stored(document: dict[str, Any]) -> None:
    for form in BY_NAME:
        reading = read(document, form, Envelope(trace_id="t\0" * 300, parent_handoff_id="\ud800"))
        assert reading.record is not None
        record = reading.record
        texts = [record.handoff_id or "", record.tenant_id or "", record.handoff_type, record.source_agent_id]
        texts += [record.target_agent_id, record.trace_id, record.parent_handoff_id, *record.call_chain]
        assert all(len(text) <= 200 and "\0" not in text for text in texts)
        for text in texts:
            text.encode()


@settings(max_examples=examples(150))
@given(raw=st.binary(max_size=200) | VALUES.map(lambda value: repr(value).encode("utf-8", "replace")))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    value, issues = parse_json(raw)
    assert issues == () or value is None


@pytest.mark.parametrize("document", [None, True, 1, 1.5, "text", [], [{}]])
def test_what_is_no_object_is_refused(document: Any) -> None:
    reading = read(document, None, Envelope())
    assert reading.record is None
    assert [issue.code for issue in reading.issues] == ["structure.wrong_type"]
