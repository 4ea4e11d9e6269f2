"""Tests of repairs by rule: the repaired and the remaining findings, and the unchanged input."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation.config import Mode, TypePolicy
from handoffaudit.validation.formats import BY_NAME, read
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.json_text import MAX_DEPTH, compact, parse_json, sha256_hex
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.repair import Means, budget_of, repair, repair_to_dict
from handoffaudit.validation.repair.edit import ABSENT, place_value
from handoffaudit.validation.repair.edit import remove_field as dropped
from handoffaudit.validation.tokenizers import default_counter, estimate
from handoffaudit.validation.verdict import Verdict
from tests.elapsed import grows_linearly
from tests.scale import examples, size
from tests.validation.repair.support import NEW_ID, candidate, repaired, without
from tests.validation.support import NOW, codes, judge, payload, record_of, universal
from tests.validation.test_properties import BROKEN, OBJECTS, VALUES

ROOT = Path(__file__).parents[3]
LONG = ("The supplier in Lyon answered on Monday and named a price of 12.40 EUR. " * 20).strip()
HUGE = {"rows": list(range(4000))}


def test_the_defaults_of_missing_fields() -> None:
    document = universal()
    for name in ("version", "schema_type", "trace_id", "timestamp", "meta"):
        del document["handoff"][name]
    found = repaired(document)
    handoff = candidate(found)["handoff"]

    assert handoff["version"] == "3.0"
    assert handoff["schema_type"] == "universal"
    assert handoff["timestamp"] == "2026-02-01T08:01:00Z"
    assert handoff["trace_id"] == record_of(document).trace_id
    assert handoff["meta"]["confidence"] == "medium"
    assert handoff["meta"]["token_count"] == round(estimate(compact(candidate(found)).decode()))
    assert found.repaired is not None
    assert found.repaired.number == 1
    assert codes(found.repaired.verdict) == []


def test_a_trace_id_from_beside_the_document_that_cannot_stand_in_it_is_made_anew() -> None:
    document = without("handoff", "trace_id")
    document["handoff"]["extra"] = 1
    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: NEW_ID)

    def verdict_on(one: Document) -> Verdict:
        return judge(one, "universal", envelope={"trace_id": "run-17"})

    found = repair(document, verdict_on(document), "universal", judge=verdict_on, means=means)
    assert candidate(found)["handoff"]["trace_id"] == NEW_ID


@pytest.mark.parametrize(
    ("section", "change", "path", "expected"),
    [
        ("context", {"summary": "s" * 501}, ("context", "summary"), "s" * 497 + "..."),
        ("context", {"problem_type": "Reserch"}, ("context", "problem_type"), "research"),
        ("schema_type", "Universal", ("schema_type",), "universal"),
        ("version", 3.0, ("version",), "3.0"),
        ("trace_id", "D53A8F7E049D4F0D910F824BA3BF6E11", ("trace_id",), "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"),
        ("trace_id", "d53a8f7e049d4f0d910f824ba3bf6e11", ("trace_id",), "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"),
        ("timestamp", "2026-02-01 09:00:00+01:00", ("timestamp",), "2026-02-01T08:00:00Z"),
        ("timestamp", "2026-02-01T08:00", ("timestamp",), "2026-02-01T08:00:00Z"),
        ("timestamp", "2026-02-01T08:00:00", ("timestamp",), "2026-02-01T08:00:00Z"),
        ("timestamp", 1769932800, ("timestamp",), "2026-02-01T08:00:00Z"),
        ("timestamp", 1769932800000, ("timestamp",), "2026-02-01T08:00:00Z"),
        ("meta", {"handoff_reason": None}, ("meta", "handoff_reason"), None),
        ("source", {"workflow_id": 17}, ("source", "workflow_id"), "17"),
        ("context", {"focus_areas": "prices"}, ("context", "focus_areas"), ["prices"]),
        ("meta", {"handoff_chain": []}, ("meta", "handoff_chain"), ["curator"]),
        ("meta", {"user_approved": "false"}, ("meta", "user_approved"), False),
        ("meta", {"confidence": "Medium"}, ("meta", "confidence"), "medium"),
        ("tracing", {"tags": {"run": 17}}, ("tracing", "tags", "run"), "17"),
        ("extra", 1, ("extra",), None),
    ],
)
def test_a_hint_is_followed(section: str, change: Any, path: tuple[str, ...], expected: Any) -> None:
    value: Any = candidate(repaired(universal(**{section: change})))["handoff"]
    for key in path:
        value = value.get(key)
    assert value == expected
    assert isinstance(value, bool) is isinstance(expected, bool)


@pytest.mark.parametrize("wrong", ["12", 12.5, -3, 4000, None, [], {}, 10**30])
def test_the_token_count_is_recounted(wrong: Any) -> None:
    document = candidate(repaired(universal(meta={"token_count": wrong})))
    assert document["handoff"]["meta"]["token_count"] == round(estimate(compact(document).decode()))


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        ({"confidence": 1.7}, "confidence", 1.0),
        ({"confidence": -0.2}, "confidence", 0.0),
        ({"confidence": " 0.7 "}, "confidence", 0.7),
        ({"context_refs": "brief"}, "context_refs", ["brief"]),
        ({"call_chain": []}, "call_chain", ["researcher"]),
        ({"call_chain": ["planner"]}, "call_chain", ["planner", "researcher"]),
        ({"call_chain": ["planner", "Re-Searcher"]}, "call_chain", ["planner", "researcher"]),
        ({"tenant_id": ""}, "tenant_id", "acme"),
        ({"timestamp": "20260201T080000Z"}, "timestamp", "2026-02-01T08:00:00Z"),
        ({"handoff_id": "a\0b"}, "handoff_id", "ab"),
    ],
)
def test_a_hint_of_a_payload_is_followed(change: dict[str, Any], name: str, expected: Any) -> None:
    document = candidate(repaired(payload(**change), known={("tenant_id",): "acme"}))
    assert document[name] == expected


def test_a_misspelt_field_gets_its_name_and_keeps_its_place() -> None:
    document = payload()
    document = {"source_agent" if key == "source_agent_id" else key: value for key, value in document.items()}
    found = candidate(repaired(document))
    assert found == payload()
    assert list(found) == list(payload())


def test_a_name_that_is_only_a_little_alike_is_not_taken_for_it() -> None:
    document = without("handoff", "meta")
    document["handoff"]["extra"] = {"token_count": 3}
    handoff = candidate(repaired(document))["handoff"]
    assert "extra" not in handoff
    assert handoff["meta"]["confidence"] == "medium"


def test_a_guessed_name_whose_value_does_not_fit_is_taken_back() -> None:
    handoff = candidate(repaired(universal(expire_at="in a week")))["handoff"]
    assert "expire_at" not in handoff
    assert "expires_at" not in handoff


@pytest.mark.parametrize(
    "document",
    [
        payload(source_agent_id=""),
        payload(target_agent_id="researcher"),
        payload(target_agent_id="planner"),
        payload(data=["text"]),
        payload(handoff_type=None),
        payload(timestamp="yesterday"),
        payload(source_agent_id="r" * 300),
        universal(version="1.0"),
        universal(trace_id="trace-17"),
        universal(context={"summary": ""}),
        without("handoff", "source"),
        without("handoff", "payload"),
        universal(meta={"payload_hash": f"sha256:{'0' * 64}"}),
        universal(payload={"working": HUGE}),
        payload(data=HUGE),
    ],
)
def test_what_only_the_sender_knows_goes_to_a_person(document: Document) -> None:
    found = repaired(document, known={("tenant_id",): "acme"})
    assert found.status == "escalated"
    assert found.repaired is None
    assert [attempt.number for attempt in found.attempts] == [1, 2, 3]
    assert all(attempt.errors for attempt in found.attempts)
    assert "A person must fix the document" in found.why


def test_a_hash_that_does_not_match_is_never_made_to() -> None:
    wrong = f"sha256:{'0' * 64}"
    document = universal(
        payload={"working": {"a": 1}, "session": {"state": {}}},
        context={"problem_type": "Reserch"},
        meta={"payload_hash": wrong, "payload_size_bytes": 1},
    )
    found = repaired(document)
    assert found.status == "escalated"
    for attempt in found.attempts:
        assert attempt.document["handoff"]["meta"]["payload_hash"] == wrong
        assert "integrity.payload_hash_mismatch" in [issue.code for issue in attempt.errors]


def test_hash_and_size_follow_a_payload_that_repair_changed() -> None:
    document = universal(payload={"session": {"artifacts": [{"name": "a", "path": "b", "type": "analysys"}]}})
    text = compact(document["handoff"]["payload"])
    document["handoff"]["meta"] |= {"payload_hash": f"sha256:{sha256_hex(text)}", "payload_size_bytes": len(text)}
    found = repaired(document)
    payload_now = compact(candidate(found)["handoff"]["payload"])
    assert candidate(found)["handoff"]["meta"]["payload_hash"] == f"sha256:{sha256_hex(payload_now)}"
    assert candidate(found)["handoff"]["meta"]["payload_size_bytes"] == len(payload_now)
    assert found.repaired is not None
    assert codes(found.repaired.verdict) == []


def test_the_second_try_compresses() -> None:
    found = repaired(universal(payload={"session": {"state": {"log": LONG * 8}}}))
    assert found.repaired is not None
    assert (found.repaired.number, found.repaired.name) == (2, "compression")
    assert found.attempts[0].note
    assert "session" not in candidate(found)["handoff"]["payload"]


def test_the_third_try_keeps_the_working_part_alone() -> None:
    rest = {"session": {"artifacts": [{"name": "no path"}]}, "references": {"files": [{}]}, "other": 1}
    found = repaired(universal(payload=rest))
    assert found.repaired is not None
    assert (found.repaired.number, found.repaired.name) == (3, "working only")
    assert candidate(found)["handoff"]["payload"] == {"working": {"title": "Review and polish", "priority": "high"}}
    removed = [change.field_path for change in found.repaired.changes if change.kind == "removed"]
    assert removed == [f"handoff.payload.{name}" for name in rest]


@pytest.mark.parametrize(
    ("document", "note"),
    [
        (payload(target_agent_id="researcher"), "Only documents of the format universal have a working part."),
        (universal(target={"skill": "curator"}), "The payload contains only payload.working."),
        (place_value(universal(), ("handoff", "payload"), {"other": 1}), "The payload has no working part."),
    ],
)
def test_the_third_try_says_why_it_had_nothing_to_do(document: Document, note: str) -> None:
    assert repaired(document).attempts[2].note == note


def test_the_tries_go_on_from_each_other() -> None:
    document = universal(
        context={"problem_type": "Reserch"}, payload={"session": {"state": {"log": LONG * 8}}, "references": 3}
    )
    found = repaired(document)
    assert found.repaired is not None
    assert found.repaired.number == 3
    handoff = candidate(found)["handoff"]
    assert (handoff["context"]["problem_type"], list(handoff["payload"])) == ("research", ["working"])


def test_a_long_chain_is_not_cut_to_one_that_passes_without_approval() -> None:
    chain = ["curator", *(f"agent-{number}" for number in range(20))]
    document = universal(meta={"handoff_chain": chain}, payload={"session": {"state": {"log": LONG * 8}}})
    found = repaired(document, policy={"approval_length": 12})
    assert len(candidate(found)["handoff"]["meta"]["handoff_chain"]) == 13
    assert found.repaired is not None
    assert found.repaired.verdict.outcome == "held"


def test_a_loop_is_not_compressed_away() -> None:
    chain = ["curator", *(f"agent-{number}" for number in range(20))]
    document = universal(
        meta={"handoff_chain": chain}, target={"skill": "agent-9"}, payload={"session": {"state": {"log": LONG * 8}}}
    )
    found = repaired(document)
    assert found.status == "escalated"
    assert all("chain.circular" in [issue.code for issue in attempt.errors] for attempt in found.attempts)


@pytest.mark.parametrize(
    "document",
    [payload(), universal(), universal(timestamp="2026-02-01T09:00:00+01:00"), without("handoff", "trace_id")],
)
def test_what_passes_is_left_alone(document: Document) -> None:
    found = repaired(document)
    assert (found.status, found.attempts, found.repaired) == ("not_needed", (), None)


def test_what_is_held_waits_for_a_person() -> None:
    assert repaired(payload(call_chain=["a", "b", "c", "d", "e", "researcher"])).status == "not_needed"


def test_in_shadow_the_errors_are_repaired_all_the_same() -> None:
    found = repaired(payload(data={"text": LONG * 8}), policy={"mode": Mode.SHADOW})
    assert found.status == "repaired"


@pytest.mark.parametrize("text", [b"{", b"[1]", b'"text"', b"", b'{"a": 1}'])
def test_what_no_record_can_be_read_from_is_not_repaired(text: bytes) -> None:
    document, _ = parse_json(text)
    reading = read(document, None, Envelope())
    assert reading.record is None
    rejected = judge(payload(data=1))

    def never(candidate: Document) -> Verdict:
        raise AssertionError(candidate)

    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: NEW_ID)
    found = repair(document, rejected, "", judge=never, means=means)
    assert (found.status, found.attempts) == ("not_possible", ())
    assert found.why


def test_a_known_format_that_is_nested_too_deeply_is_not_called_unknown() -> None:
    document = payload(data={})
    for _ in range(MAX_DEPTH):
        document["data"] = {"inner": document["data"]}
    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: NEW_ID)
    found = repair(document, judge(payload(data=1)), "payload", judge=judge, means=means)
    assert found.status == "not_possible"
    assert found.why.startswith("The document is nested more than 64 levels deep")


def test_a_candidate_of_lower_quality_is_not_called_faulty() -> None:
    document = payload(confidence="0.7")
    rejected = judge(document)

    def judge_lower(candidate: Document) -> Verdict:
        return msgspec.structs.replace(judge(candidate), quality_score=rejected.quality_score - 0.1)

    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: NEW_ID)
    found = repair(document, rejected, "payload", judge=judge_lower, means=means)
    assert found.status == "escalated"
    assert found.why.startswith("3 tries did not produce a document with at least the same quality score.")


def test_the_result_as_json() -> None:
    shown = orjson.loads(orjson.dumps(repair_to_dict(repaired(payload(confidence="0.7")))))
    assert shown["status"] == "repaired"
    assert shown["repaired_by"] == 1
    assert shown["document"]["confidence"] == 0.7
    assert shown["attempts"] == [
        {
            "number": 1,
            "name": "defaults and hints",
            "note": "",
            "valid": True,
            "outcome": "accepted",
            "quality_score": 1.0,
            "changes": [
                {
                    "field_path": "confidence",
                    "json_pointer": "/confidence",
                    "kind": "changed",
                    "before": "0.7",
                    "after": 0.7,
                    "why": "converted to the required type",
                }
            ],
            "errors": [],
        }
    ]


def test_a_compression_that_falls_short_says_which_step_saved_how_much() -> None:
    document = universal(
        target={"invocation": "/write " + "now " * 200},
        payload={"working": {f"fact-{number}": f"value {number}" for number in range(1_000)}},
    )
    found = repaired(document)
    note = found.attempts[1].note
    assert found.status == "escalated"
    assert note.startswith("Saved tokens: dropped handoff.target.invocation (about 2")
    assert re.search(r"\. ([\d,]+) tokens are left, [\d,]+ over the budget of 2,000\.$", note)


def test_a_compression_that_finds_nothing_says_what_is_left() -> None:
    document = universal(payload={"working": {f"fact-{number}": f"value {number}" for number in range(1_000)}})
    note = repaired(document).attempts[1].note
    assert note.startswith("No step could remove anything. ")
    assert note.endswith(" over the budget of 2,000.")


def test_a_document_within_its_budget_says_so() -> None:
    note = repaired(payload(target_agent_id="researcher")).attempts[1].note
    assert re.fullmatch(r"The document is within its token budget: \d+ of 2,000\.", note)


def test_a_try_of_ones_own_takes_the_place_of_one() -> None:
    """The answer of an LLM counts as one of the three tries in the same way."""

    class Renaming:
        name = "asked"

        def idle(self, draft: Any, work: Any) -> str:
            return "Nothing was asked."

        def __call__(self, draft: Any, verdict: Verdict, work: Any) -> Any:
            return draft.put(("target_agent_id",), "editor", "asked for") or draft

    document = payload(target_agent_id="researcher")
    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: NEW_ID)
    found = repair(document, judge(document), "payload", judge=judge, means=means, tries=(Renaming(),))
    assert candidate(found)["target_agent_id"] == "editor"


@settings(max_examples=examples(150))
@given(document=OBJECTS | BROKEN, form=st.sampled_from(sorted(BY_NAME)))
def test_any_object_is_repaired_or_goes_to_a_person(document: dict[str, Any], form: str) -> None:
    found = repaired(document, form, known={("tenant_id",): "acme"})
    assert found.status in ("not_needed", "repaired", "escalated")


EXAMPLES = [orjson.loads(path.read_bytes()) for path in sorted((ROOT / "docs" / "examples").glob("*.json"))]


def places(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return every place of a document, its root included."""
    held = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place, *(inner for key, item in held for inner in places(item, (*place, key)))]


@settings(max_examples=examples(150))
@given(data=st.data(), value=VALUES | st.just(ABSENT))
def test_any_fault_of_a_real_document(data: st.DataObject, value: Any) -> None:
    document = data.draw(st.sampled_from(EXAMPLES))
    place = data.draw(st.sampled_from(places(document)[1:]))
    droppable = value is ABSENT and isinstance(place[-1], str)
    broken = dropped(document, place) if droppable else place_value(document, place, None if value is ABSENT else value)
    repaired(broken, record_of(document).format)


PARTS = st.sampled_from(
    [
        ("timestamp", "2026-02-01T08:00:00+01:00"),
        ("timestamp", "2026"),
        ("context", {"summary": LONG}),
        ("context", {"original_prompt": LONG, "success_criteria": [LONG]}),
        ("payload", {"session": {"state": {"log": LONG * 6}}}),
        ("payload", {"working": {"text": LONG * 6, "more": [LONG] * 3}}),
        ("payload", {"references": {"files": "x", "urls": [{"url": "no uri"}]}}),
        ("meta", {"handoff_chain": [f"agent-{number}" for number in range(15)]}),
        ("meta", {"payload_hash": f"sha256:{'0' * 64}"}),
        ("meta", {"token_count": "many"}),
        ("target", {"skill": "curator"}),
        ("target", {"skill": "agent-7"}),
        ("schema_type", None),
        ("surplus", {"a": "b"}),
    ]
)


@settings(max_examples=examples(60))
@given(parts=st.lists(PARTS, max_size=6))
def test_several_faults_at_once(parts: list[tuple[str, Any]]) -> None:
    document = universal()
    for name, change in parts:
        held = document["handoff"].get(name)
        document["handoff"][name] = {**held, **change} if isinstance(held, dict) else change
    repaired(document)


def test_many_faults_take_time_in_proportion() -> None:
    def broken(entries: int) -> Callable[[], object]:
        artifacts = [{"name": number, "path": 1, "type": "x"} for number in range(entries)]
        unknown = {f"k{number}": 1 for number in range(entries // 4)}
        return partial(repaired, universal(payload={"session": {"artifacts": artifacts}}, **unknown))

    assert grows_linearly(broken, size(1250))
