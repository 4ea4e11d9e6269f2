"""Property tests: reading and checking a document of any format never raises."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation.formats import BY_NAME, FORMATS, read
from handoffaudit.validation.formats.file_report import MARK, read_block
from handoffaudit.validation.formats.universal import lift
from handoffaudit.validation.layers.structure import check
from handoffaudit.validation.record import Envelope
from tests.scale import examples

from ..support import subject_of
from ..test_properties import OBJECTS, VALUES, broken, shuffled
from .documents import FORMAT_OF, checked, example

NAMES = sorted(FORMAT_OF)
FORMS = st.sampled_from([None, *BY_NAME])


def places(value: Any) -> list[list[Any]]:
    """Return every path into the document."""
    keys = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, item in keys for path in ([key], *([key, *rest] for rest in places(item)))]


ALL_PLACES = [(name, place) for name in NAMES for place in places(example(name))]
BROKEN = st.builds(
    lambda where, value: broken(example(where[0]), where[1], value), st.sampled_from(ALL_PLACES), VALUES | OBJECTS
)
# what a field holds in one format, somewhere in another
MIXED = st.builds(lambda first, second: {**example(first), **example(second)}, *[st.sampled_from(NAMES)] * 2)


@settings(max_examples=examples(300))
@given(document=BROKEN | MIXED | OBJECTS, form=FORMS, adapt=st.booleans())
def test_nothing_raises(document: dict[str, Any], form: str | None, adapt: bool) -> None:
    reading = read(document, form, Envelope(adapt=adapt, agent="a\0" * 300, trace_id="\ud800"))
    assert (reading.record is None) == bool(reading.issues)
    assert reading.record is None or reading.record.arrived == document
    if reading.record is None:
        return
    record = reading.record
    found = BY_NAME[record.format]
    assert all(0 < len(issue.message) <= 600 for issue in found.check(record))
    list(found.references(record.document))
    found.sections(record.document)
    found.seal(record.document)
    for text in (record.source_agent_id, record.target_agent_id, record.trace_id, record.handoff_type):
        assert len(text) <= 200
        assert "\0" not in text
        text.encode()


@settings(max_examples=examples(200))
@given(document=BROKEN | MIXED, adapt=st.booleans(), seed=st.integers(0, 99))
def test_the_order_of_keys_does_not_matter(document: dict[str, Any], adapt: bool, seed: int) -> None:
    other = shuffled(document, random.Random(seed))  # noqa: S311
    form = next((one.name for one in FORMATS if one.recognise(document)), None)
    assert form == next((one.name for one in FORMATS if one.recognise(other)), None)
    if form is None:
        return
    first, second = (subject_of(one, form, envelope={"adapt": adapt}) for one in (document, other))
    assert sorted(issue.code for issue in check(first)) == sorted(issue.code for issue in check(second))
    assert first.record.trace_id == second.record.trace_id


@settings(max_examples=examples(100))
@given(document=BROKEN | OBJECTS)
def test_anything_can_be_lifted(document: dict[str, Any]) -> None:
    once = lift(document, "t")
    assert once == lift(document, "t")
    assert once["handoff"]["version"] == "3.0"


@settings(max_examples=examples(100))
@given(text=st.text(max_size=80), lines=st.lists(st.sampled_from(["STATUS: a", "NEXT:", "artifacts: [", "Summary:"])))
def test_any_text_has_a_block_or_none(text: str, lines: list[str]) -> None:
    found = read_block("\n".join([text, MARK, *lines, text]))
    assert found is None or sorted(found) == ["artifacts", "next", "status", "summary"]


@settings(max_examples=examples(100))
@given(document=BROKEN)
def test_any_document_comes_to_a_verdict(document: dict[str, Any]) -> None:
    for form in BY_NAME:
        assert checked(document, form, envelope={"adapt": True}).quality_score <= 1.0
