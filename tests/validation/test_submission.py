"""Tests of splitting a submission into the document and its envelope."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.validation.submission import FIELDS, read_submission
from tests.validation.support import payload

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


@pytest.mark.parametrize(
    "sent", [b"", b" ", b'{"source_agent_id": ', b"[]", b"null", b'"text"', b"\xff\xfe", b"{" * 5000, b'{"a":1}']
)
def test_what_is_no_envelope_is_the_document(sent: bytes) -> None:
    read = read_submission(sent)
    assert (read.document, read.issues) == (sent, ())


@pytest.mark.parametrize(
    ("fields", "code", "place", "said"),
    [
        ({"colour": 1}, "structure.unknown_field", "colour", '"colour"'),
        ({"step": "two"}, "structure.wrong_type", "step", 'step is a string ("two"), not an integer.'),
        ({"step": 2**31}, "structure.out_of_range", "step", "2147483648"),
        ({"step": -(2**31) - 1}, "structure.out_of_range", "step", "-2147483649"),
        ({"trace_id": "t" * 201}, "structure.too_long", "trace_id", "201"),
        ({"handoff_id": "a\0b"}, "structure.bad_format", "handoff_id", "NUL"),
        ({"retry_of": 7}, "structure.wrong_type", "retry_of", "retry_of is a number (7), not a string."),
        ({"adapt": None}, "structure.wrong_type", "adapt", "adapt is null, not true or false."),
        ({"context": []}, "structure.wrong_type", "context", "an object"),
        ({"evidence": {}}, "structure.wrong_type", "evidence", "a list"),
        ({"step": 2.5}, "structure.wrong_type", "step", "step is a number (2.5), not an integer."),
        ({"step": 1e300}, "structure.out_of_range", "step", "not a valid step number"),
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


@pytest.mark.parametrize(
    ("name", "field"),
    [("type", "handoff_type"), ("handoff_type", "handoff_type"), ("data", "data"), ("source", "source_agent_id")],
)
def test_a_field_of_the_document_beside_it_is_told_its_place(name: str, field: str) -> None:
    (issue,) = read_submission(envelope(**{name: "x"})).issues
    assert issue.hint == f"Put it into the document: {field} in the format payload."


def test_every_wrong_field_is_told_at_once() -> None:
    read = read_submission(envelope(trace_id="\0", retry_of="x" * 300, context=3))
    assert {issue.location for issue in read.issues} == {("trace_id",), ("retry_of",), ("context",)}


def test_every_field_of_the_wrong_type_is_told_at_once_with_its_value_and_what_is_expected() -> None:
    read = read_submission(envelope(step="3", context="x", evidence_refs={}, adapt="yes"))
    assert [(issue.field_path, issue.expected, issue.actual, issue.hint) for issue in read.issues] == [
        ("context", "object", "x", 'Give an object, for example {"question": "…"}.'),
        ("step", "integer", "3", "Convert it to an integer: 3."),
        ("adapt", "boolean", "yes", "Give true or false, for example true."),
        (
            "evidence_refs",
            None,
            None,
            "Put it into the document: data.evidence_refs in the format payload, "
            "handoff.payload.working.evidence_refs in universal.",
        ),
    ]
    assert all(issue.metadata["part"] == "envelope" for issue in read.issues)


@pytest.mark.parametrize("step", [b"3", b"3.0", b"3e0", b"30e-1"])
def test_an_integer_may_be_written_as_in_a_document(step: bytes) -> None:
    read = read_submission(b'{"document": {}, "step": ' + step + b"}")
    assert (read.envelope.step, read.issues) == (3, ())
    (issue,) = read_submission(b'{"document": {}, "adapt": 1, "step": ' + step + b"}").issues
    assert issue.location == ("adapt",)


@pytest.mark.parametrize(
    ("name", "value", "said", "hint"),
    [
        ("trace_id", b'"a\\u00e9b\xff"', "byte 9 of its text is not UTF-8", "Encode it as UTF-8."),
        ("step", b"1e400", "its number is too large", "Give a value such as 3."),
        ("format", b"-1e400", "its number is too large", 'Give a value such as "payload".'),
    ],
)
def test_a_field_that_cannot_be_read_is_named(name: str, value: bytes, said: str, hint: str) -> None:
    (issue,) = read_submission(b'{"document": {}, "' + name.encode() + b'": ' + value + b"}").issues
    assert (issue.code, issue.field_path) == ("structure.json_parse", name)
    assert (issue.message, issue.hint) == (f"{name} cannot be read: {said}.", hint)


def test_evidence_that_is_no_text_is_told_its_byte() -> None:
    (issue,) = read_submission(b'{"document": {}, "evidence": [{"content": "\xff"}]}').issues
    assert issue.message == "evidence is not JSON: its byte 14 is not UTF-8."


@pytest.mark.parametrize("beside", [{}, {"adapt": 1}])
def test_a_text_as_evidence_is_told_the_form_of_a_piece(beside: dict[str, object]) -> None:
    issue = read_submission(envelope(evidence="a text", **beside)).issues[0]
    assert issue.hint == 'Give a list, for example [{"source": "offers", "content": "…"}].'


def test_of_many_unknown_fields_the_first_are_told() -> None:
    assert len(read_submission(envelope(**{f"zz{number}": 1 for number in range(500)})).issues) == 20


def test_a_context_nested_too_deep_is_told() -> None:
    deep = b'{"a":' * 6 + b"1" + b"}" * 6
    (issue,) = read_submission(b'{"document":{},"context":' + deep + b"}", max_nesting=5).issues
    assert (issue.location, issue.code) == (("context",), "structure.json_parse")
    assert "5 levels" in issue.message
    assert not read_submission(b'{"document":{},"context":' + deep[5:-1] + b"}", max_nesting=5).issues


@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda raw: b'{"document":' + raw + b"}"))
def test_no_bytes_whatever_raise(sent: bytes) -> None:
    read = read_submission(sent)
    assert read.document in sent
