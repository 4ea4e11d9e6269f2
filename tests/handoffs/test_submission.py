"""What was sent, cut into the document and its envelope."""

import tracemalloc

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.handoffs.submission import FIELDS, read_submission, split_batch
from tests.handoffs.support import NOT_JSON, payload

BOM = b"\xef\xbb\xbf"


def envelope(**fields: object) -> bytes:
    return orjson.dumps({"document": payload(), **fields})


def test_a_bare_document_is_kept_byte_for_byte() -> None:
    sent = b'\n {"source_agent_id" :\t"a" ,\r\n "x":1.50}  '
    assert read_submission(sent).document == sent


def test_the_document_of_an_envelope_is_cut_out_byte_for_byte() -> None:
    document = b'{ "source_agent_id" :\t"a" ,\r\n "amount":1.50, "amount":1.500 }'
    read = read_submission(b'{"step": 2, "document":' + document + b', "context": {"a" : 1.0} }')
    assert read.document.strip() == document
    assert read.context is not None
    assert read.context.strip() == b'{"a" : 1.0}'
    assert read.envelope.step == 2
    assert not read.issues


def test_a_declared_format_says_that_the_document_is_bare() -> None:
    sent = envelope()
    read = read_submission(sent, "payload")
    assert (read.document, read.format, read.issues) == (sent, "payload", ())


def test_a_byte_order_mark_before_an_envelope_is_skipped() -> None:
    read = read_submission(BOM + envelope(format="payload"))
    assert orjson.loads(read.document) == payload()
    assert read.format == "payload"


def test_a_byte_order_mark_of_a_bare_document_is_kept() -> None:
    sent = BOM + orjson.dumps(payload())
    assert read_submission(sent).document == sent


@pytest.mark.parametrize("sent", [b"", b" ", NOT_JSON, b"[]", b"null", b'"text"', b"\xff\xfe", b"{" * 5000, b'{"a":1}'])
def test_what_is_no_envelope_is_the_document(sent: bytes) -> None:
    read = read_submission(sent)
    assert (read.document, read.issues) == (sent, ())


@pytest.mark.parametrize(
    ("fields", "code", "place", "said"),
    [
        ({"colour": 1}, "structure.unknown_field", "colour", "'colour'"),
        ({"step": "two"}, "structure.wrong_type", "step", "can't be read"),
        ({"step": 2**31}, "structure.out_of_range", "step", "2147483648"),
        ({"step": -(2**31) - 1}, "structure.out_of_range", "step", "-2147483649"),
        ({"trace_id": "t" * 201}, "structure.too_long", "trace_id", "201"),
        ({"handoff_id": "a\0b"}, "structure.bad_format", "handoff_id", "NUL"),
        ({"retry_of": 7}, "structure.wrong_type", "retry_of", "can't be read"),
        ({"context": []}, "structure.wrong_type", "context", "an object"),
        ({"evidence": {}}, "structure.wrong_type", "evidence", "a list"),
    ],
)
def test_what_is_wrong_with_an_envelope_is_said_with_its_place(
    fields: dict[str, object], code: str, place: str, said: str
) -> None:
    sent = envelope(**fields)
    read = read_submission(sent)
    (issue,) = read.issues
    assert (issue.code, issue.location) == (code, (place,))
    assert said in issue.message
    assert issue.hint
    assert read.document == sent


def test_the_hint_for_an_unknown_field_names_those_that_are_known() -> None:
    (issue,) = read_submission(envelope(colour=1)).issues
    assert all(name in issue.hint for name in FIELDS)


def test_every_wrong_field_is_told_at_once() -> None:
    read = read_submission(envelope(trace_id="\0", retry_of="x" * 300, context=3))
    assert {issue.location for issue in read.issues} == {("trace_id",), ("retry_of",), ("context",)}


def test_a_context_nested_too_deep_is_told(settings) -> None:
    settings.MAX_NESTING = 5
    deep = b'{"a":' * 6 + b"1" + b"}" * 6
    (issue,) = read_submission(b'{"document":{},"context":' + deep + b"}").issues
    assert (issue.location, issue.code) == (("context",), "structure.json_parse")
    assert "5 levels" in issue.message
    assert not read_submission(b'{"document":{},"context":' + deep[5:-1] + b"}").issues


def test_a_batch_is_cut_into_the_bytes_of_its_items() -> None:
    items = [b'{"a" : 1}', b"[ ]", b"null", b'"x"']
    assert [item.strip() for item in split_batch(b"[ " + b" ,\n".join(items) + b" ]", lines=False, most=9)] == items
    assert split_batch(b"\n".join(items) + b"\r\n\n  \n", lines=True, most=9) == [*items[:-1], items[-1] + b"\r"]


@pytest.mark.parametrize("sent", [b"[1, 2", b"[1,]", b"[" * 5000, b"[\xff]x"])
def test_an_array_that_cannot_be_read_raises(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        split_batch(sent, lines=False, most=9)


@pytest.mark.parametrize("lines", [False, True])
def test_of_a_batch_of_millions_few_items_are_kept(lines: bool) -> None:
    sent = b"11\n" * 500_000 if lines else b"[" + b"11," * 500_000 + b"11]"
    tracemalloc.start()
    try:
        assert split_batch(sent, lines=lines, most=3) == [b"11"] * 4
        assert tracemalloc.get_traced_memory()[1] < len(sent)
    finally:
        tracemalloc.stop()


def test_what_follows_the_last_item_that_is_kept_is_read_too() -> None:
    with pytest.raises(ValueError, match="malformed"):
        split_batch(b"[1,2,3,4,nonsense]", lines=False, most=2)


def test_a_line_keeps_the_spaces_it_begins_with() -> None:
    assert split_batch(b"  \n \t{}\n\n 1 ", lines=True, most=9) == [b" \t{}", b" 1 "]


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda raw: b'{"document":' + raw + b"}"))
def test_no_bytes_whatever_raise(sent: bytes) -> None:
    read = read_submission(sent)
    assert read.document in sent
