"""Tests of a document's statements about itself: times, trace ids, hashes and confidence."""

import hashlib
import json

import pytest

from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.layers.consistency import PAYLOAD_HASH_MISMATCH

from ..support import codes, judge, payload, raw, universal


def sealed(working: dict, text: str) -> dict:
    digest = hashlib.sha256(text.encode()).hexdigest()
    document = universal(payload={"working": working})
    document["handoff"]["meta"] |= {"payload_hash": f"sha256:{digest}", "payload_size_bytes": len(text.encode())}
    return document


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("2026-02-01T08:00:00Z", []),
        ("2026-02-01T08:00:00+00:00", []),
        ("2026-02-01T08:00:00+01:00", ["consistency.timestamp_not_utc"]),
        ("2026-02-01T08:00:00", ["consistency.timestamp_not_utc"]),
    ],
)
def test_payload_wants_utc(timestamp: str, expected: list[str]) -> None:
    assert codes(judge(payload(timestamp=timestamp))) == expected


def test_universal_wants_z() -> None:
    assert codes(judge(universal(timestamp="2026-02-01T08:00:00+00:00"))) == ["consistency.timestamp_not_utc"]
    both = judge(universal(timestamp="2026-02-01T08:00:00+00:00", expires_at="2026-02-01T10:00:00+01:00"))
    assert [issue.field_path for issue in both.issues] == ["handoff.timestamp", "handoff.expires_at"]


def test_five_minutes_ahead_are_tolerated() -> None:
    assert codes(judge(payload(timestamp="2026-02-01T08:06:00Z"))) == []
    assert codes(judge(payload(timestamp="2026-02-01T08:06:00.1Z"))) == ["consistency.clock_skew"]


def test_a_moment_is_not_before_itself() -> None:
    assert codes(judge(universal(timestamp="2026-02-01T08:01:00Z", expires_at="2026-02-01T08:01:00Z"))) == []


@pytest.mark.parametrize("variant", "cd67")
def test_trace_ids_of_another_variant(variant: str) -> None:
    trace_id = f"d53a8f7e-049d-4f0d-{variant}10f-824ba3bf6e11"
    assert codes(judge(universal(trace_id=trace_id))) == ["consistency.trace_id_not_v4"]


def test_a_made_trace_id_is_not_held_against_the_sender() -> None:
    document = universal()
    del document["handoff"]["trace_id"]
    assert codes(judge(document, envelope={"trace_id": "run-1"})) == ["structure.generated_trace_id"]


@pytest.mark.parametrize(
    "working",
    [
        {"b": 1, "a": "é 東 👩‍👧"},
        {"small": 1.5e-07, "large": 1e16, "whole": 1.0},
        {"text": 'line\nbreak \u2028 \u007f / \\ "'},
    ],
)
def test_the_hash_python_senders_compute_matches(working: dict) -> None:
    text = json.dumps({"working": working | {}}, separators=(",", ":"), ensure_ascii=False)
    document = sealed(working, text)
    assert not [code for code in codes(judge(document)) if code.startswith("integrity")]


@pytest.mark.parametrize(
    "text", ['{"working":{"a":0.000001,"b":-0.0000025,"c":1e-7}}', '{"working":{"a":[0.00001,{"b":0.00000999}]}}']
)
def test_the_hash_javascript_senders_compute_matches(text: str) -> None:
    assert not [
        code for code in codes(judge(sealed(json.loads(text)["working"], text))) if code.startswith("integrity")
    ]


def test_the_size_alone_is_held_against_every_spelling() -> None:
    for size in (len('{"working":{"n":1.5e-6}}'), len('{"working":{"n":1.5e-06}}'), len('{"working":{"n":0.0000015}}')):
        document = universal(payload={"working": {"n": 1.5e-6}}, meta={"payload_size_bytes": size})
        assert codes(judge(document)) == []


def test_only_sha256() -> None:
    for declared in ("md5:" + "0" * 64, "sha512:" + "0" * 64, "sha256:" + "A" * 64, "0" * 64):
        (issue,) = judge(universal(meta={"payload_hash": declared})).issues
        assert (issue.code, issue.field_path) == ("structure.bad_format", "handoff.meta.payload_hash")


def test_what_only_other_parsers_let_through_can_be_sealed() -> None:
    document = universal(payload={"working": {"n": 1.5e-6, "t": "\ud800"}}, meta={"payload_hash": "sha256:" + "0" * 64})
    assert "integrity.payload_hash_mismatch" in codes(judge(document))


def test_order_of_keys_counts_for_the_hash() -> None:
    document = sealed({"b": 1, "a": 2}, '{"working":{"a":2,"b":1}}')
    assert codes(judge(document)) == ["integrity.payload_hash_mismatch"]


@pytest.mark.parametrize(
    ("hashed", "sent", "expected"),
    [
        ('{"n":123456789012345678901234567890}', '{"n":123456789012345678901234567890}', []),
        ('{"n":123456789012345678901234567890}', '{"n":123456789012345678901234567891}', [PAYLOAD_HASH_MISMATCH.code]),
        ('{"n":100000000000000000000,"m":1e-7}', '{"n":100000000000000000000,"m":1e-7}', []),
        ('{"n":100000000000000000000,"m":1e-07}', '{"n":100000000000000000000,"m":1e-07}', []),
        ('{"n":1e+300,"paid":1}', '{"n":1e+300,"paid":1}', []),
        ('{"n":1e+300,"paid":1}', '{"n":1e+300,"paid":9}', [PAYLOAD_HASH_MISMATCH.code]),
    ],
    ids=["as hashed", "a digit changed", "JavaScript", "Python", "a large float", "changed beside a large float"],
)
def test_large_numbers_do_not_excuse_a_wrong_hash(hashed: str, sent: str, expected: list[str]) -> None:
    whole = raw(sealed({}, f'{{"working":{hashed}}}')).replace(b'"working":{}', f'"working":{sent}'.encode())
    document, _ = parse_json(whole)
    assert isinstance(document, dict)
    assert codes(judge(document, sent=whole)) == expected


@pytest.mark.parametrize(("confidence", "expected"), [(0.5, []), (0.49, ["confidence.low"]), (0, ["confidence.low"])])
def test_confidence(confidence: float, expected: list[str]) -> None:
    assert codes(judge(payload(confidence=confidence))) == expected
    assert codes(judge(payload(confidence=confidence), policy={"confidence_floor": 0.0})) == []
