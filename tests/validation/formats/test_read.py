"""Tests of documents in any condition as records."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from handoffaudit.validation.formats import BY_NAME, FORMATS, read
from handoffaudit.validation.record import Envelope

from ..support import payload, record_of, universal
from .documents import FORMAT_OF, example


def test_the_shape_tells_the_format() -> None:
    assert read(payload(), None, Envelope()).format == "payload"
    assert read(universal(), None, Envelope()).format == "universal"
    assert read({"call_chain": []}, None, Envelope()).format == "payload"


def test_a_declared_format_is_taken_at_its_word() -> None:
    reading = read({}, "payload", Envelope())
    assert reading.record is not None
    assert reading.record.call_chain == ()


def test_no_format_fits() -> None:
    reading = read({"from": "a"}, None, Envelope())
    assert reading.record is None
    assert reading.issues[0].metadata["tried"] == [form.name for form in FORMATS]


def test_a_format_that_is_not_read() -> None:
    assert read(payload(), "outputs", Envelope()).issues[0].code == "structure.unrecognised_format"


def test_payload() -> None:
    envelope = Envelope(trace_id="t", step=3, parent_handoff_id="p", context={"q": 1}, evidence=[{"source": "s"}])
    record = read(payload(handoff_reason="why", user_approved=True), None, envelope).record
    assert record is not None
    assert record.handoff_id == "01c05620-9248-41b6-9da5-afbce7f068a0"
    assert (record.source_agent_id, record.target_agent_id, record.tenant_id) == ("researcher", "writer", "default")
    assert record.call_chain == ("planner", "researcher")
    assert (record.trace_id, record.step, record.parent_handoff_id) == ("t", 3, "p")
    assert (record.context, record.evidence) == ({"q": 1}, ({"source": "s"},))
    assert record.timestamp == datetime(2026, 2, 1, 8, tzinfo=UTC)
    assert (record.handoff_reason, record.user_approved) == ("why", True)


def test_payload_defaults() -> None:
    record = record_of({}, "payload", handoff_id="from-the-envelope")
    assert (record.confidence, record.timestamp, record.context_refs) == (1.0, None, ())
    assert record.handoff_id == "from-the-envelope"


def test_a_time_without_an_offset_is_utc() -> None:
    assert record_of(payload(timestamp="2026-02-01T08:00:00")).timestamp == datetime(2026, 2, 1, 8, tzinfo=UTC)


def test_universal() -> None:
    record = record_of(universal(expires_at="2026-02-01T10:00:00+01:00"))
    assert (record.source_agent_id, record.target_agent_id) == ("curator", "writer-editor")
    assert record.handoff_type == "implementation"
    assert record.trace_id == "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"
    assert record.data == {"working": {"title": "Review and polish", "priority": "high"}}
    assert record.context["problem_type"] == "implementation"
    assert record.confidence == 0.6
    assert record.expires_at == datetime(2026, 2, 1, 9, tzinfo=UTC)


def test_universal_chain_defaults_to_the_source() -> None:
    document = universal()
    del document["handoff"]["meta"]["handoff_chain"]
    assert record_of(document).call_chain == ("curator",)


def test_a_made_trace_id_is_the_same_for_the_same_document() -> None:
    document = universal()
    del document["handoff"]["trace_id"]
    made = record_of(document).trace_id
    assert UUID(made).version == 4
    assert record_of(document).trace_id == made
    assert record_of(document, trace_id="given").trace_id == "given"
    document["handoff"]["meta"]["confidence"] = "low"
    assert record_of(document).trace_id != made


def test_the_documents_context_outweighs_the_submissions() -> None:
    record = record_of(universal(), context={"summary": "other", "policy": "p"})
    assert record.context["policy"] == "p"
    assert record.context["summary"].startswith("Review")


def test_universal_sections_have_their_targets() -> None:
    sections = BY_NAME["universal"].sections(universal(payload={"extra": 1, "session": {"state": {}}}))
    assert sections["payload.session"].target == 800
    assert sections["payload, other"].value == {"extra": 1}


SAMPLES = sorted(FORMAT_OF)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_right_format_recognises_each_document_first(name: str) -> None:
    assert read(example(name), None, Envelope()).format == FORMAT_OF[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_document_that_lacks_a_field_is_still_recognised(name: str) -> None:
    """The sender must learn which field is missing; a document with a single field left may have any format."""
    whole = example(name)
    if FORMAT_OF[name] == "claude-code":
        # Its name is all that tells an event from a call.
        rest = {key: value for key, value in whole.items() if key in ("hook_event_name", "session_id")}
        assert read(rest, None, Envelope()).format == "claude-code"
        return
    if len(whole) < 3:
        return
    for field in whole:
        rest = {key: value for key, value in whole.items() if key != field}
        assert read(rest, None, Envelope()).format in (FORMAT_OF[name], ""), field
        if name not in ("output", "framework", "delegation", "handoff-file-report"):
            assert read(rest, None, Envelope()).record is not None


@pytest.mark.parametrize(
    "document", [{"tool": "hammer"}, {"status": "ok", "summary": "s"}, {"envelope": {}}, {"next": 1}]
)
def test_common_words_are_no_format(document: dict[str, Any]) -> None:
    assert read(document, None, Envelope()).record is None


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "handoff-file-report"])
def test_sections_hold_the_whole_document_once(name: str) -> None:
    """Every text of the document is in exactly one section."""
    document = example(name)
    sections = BY_NAME[FORMAT_OF[name]].sections(document)
    if FORMAT_OF[name] == "universal":
        document = {"handoff": {key: value for key, value in document["handoff"].items() if key != "findings"}}
    held = sorted(text for section in sections.values() for text in leaves(section.value))
    assert held == sorted(leaves(document))
    assert all(section.target is None or section.target > 0 for section in sections.values())


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in leaves(item)]
    return [text for item in value for text in leaves(item)] if isinstance(value, list) else [repr(value)]
