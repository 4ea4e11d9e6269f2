import json

import pytest

from handoffaudit.cli import import_files
from handoffaudit.cli.import_files import Item, Occurrences, make_item, split_line


def item(line: bytes, occurrences=None):
    return make_item(1, line, occurrences or Occurrences())


def test_a_document_keeps_its_own_id():
    made = item(b'{"document": {"handoff_id": "h-1", "a":  1.0}, "step": 2}')
    assert made.handoff_id == "h-1"
    assert json.loads(made.sent)["handoff_id"] == "h-1"
    assert b'{"handoff_id": "h-1", "a":  1.0}' in made.sent


def test_the_submissions_own_id_comes_first():
    assert item(b'{"document": {"handoff_id": "inner"}, "handoff_id": "outer"}').handoff_id == "outer"


@pytest.mark.parametrize("empty", [b"null", b'""'])
def test_an_empty_id_counts_as_missing_so_that_a_server_stores_the_line_once(empty):
    made = item(b'{"document": {"handoff_id": "inner"}, "handoff_id": ' + empty + b"}")
    assert (made.handoff_id, json.loads(made.sent)["handoff_id"]) == ("inner", "inner")
    bare = item(b'{"document": {}, "handoff_id": ' + empty + b"}")
    assert json.loads(bare.sent)["handoff_id"] == bare.handoff_id


def test_a_wrong_id_is_left_for_the_server_to_report():
    assert json.loads(item(b'{"document": {}, "handoff_id": 5}').sent)["handoff_id"] == 5


def test_a_bare_document_is_put_into_a_submission_as_it_is():
    line = b'{"handoff_id": "h-1", "data":  {"x": 1.50}}'
    made = item(line)
    assert made.handoff_id == "h-1"
    assert b'"document":' + line in made.sent


@pytest.mark.parametrize(
    "line",
    [
        b'{"document": {"handoff": {}}}',
        b'{"document": {"handoff_id": 5}}',
        b'{"document": {"handoff_id": ""}}',
        b'{"document": {"handoff_id": "' + b"x" * 201 + b'"}}',
        b'{"document": {"handoff_id": "a\\u0000b"}}',
        b'{"document": 5}',
        b'{"handoff": {}}',
        b"[1, 2]",
        b'"text"',
        b"not json",
        b"\xff\xfe",
        b'{"raw": "id: yaml"}',
    ],
)
def test_without_a_usable_id_one_is_made_of_the_line_and_its_occurrence(line):
    occurrences = Occurrences()
    first, second = item(line, occurrences), item(line, occurrences)
    again = item(line)
    assert first.handoff_id.startswith("import-")
    assert first.handoff_id == again.handoff_id
    assert first.handoff_id != second.handoff_id
    assert first.handoff_id.removesuffix("1") == second.handoff_id.removesuffix("2")


def test_what_is_not_json_is_sent_as_it_is():
    made = item(b"not json {")
    assert made.raw
    assert made.sent == b"not json {"


def test_a_raw_document_is_sent_as_it_is_with_its_envelope_beside_it():
    made = item(b'{"format": "universal", "raw": "id: \\u00e9\\n- a", "trace_id": "t-1"}')
    assert made.raw
    assert made.sent == "id: é\n- a".encode()
    assert made.beside == {"format": "universal", "trace_id": "t-1"}


def test_a_raw_document_keeps_the_id_of_its_line():
    assert item(b'{"raw": "id: yaml", "handoff_id": "h-1"}').handoff_id == "h-1"
    assert item(b'{"raw": "id: yaml", "handoff_id": 5}').handoff_id.startswith("import-")


def test_json_that_is_no_object_is_a_document_too():
    made = item(b"[1, 2]")
    assert not made.raw
    assert json.loads(made.sent)["document"] == [1, 2]


def test_a_batch_stays_within_its_bytes(monkeypatch):
    monkeypatch.setattr(import_files, "BATCH_BYTES", 10)
    items = [Item(at, str(at), b"x" * size) for at, size in enumerate([4, 4, 4, 30, 1])]
    assert [[item.number for item in batch] for batch in import_files._batch_items(iter(items))] == [
        [0, 1],
        [2],
        [3],
        [4],
    ]


def span(name: str, kind: str = "handoff", **data: object) -> dict[str, object]:
    return {"object": "trace.span", "id": name, "parent_id": "p", "span_data": {"type": kind, **data}}


LONG = 10**20 + 1
SAID = span("s-1", "generation", input="prompt", output=[{"role": "assistant", "content": "Write it.", "order": LONG}])
EXPORT = {"data": [SAID, *(span(name, from_agent="a", to_agent=name) for name in ("b", "c"))]}


@pytest.mark.parametrize("beside", [{}, {"format": "framework", "trace_id": "t-2", "handoff_id": "h", "retry_of": "r"}])
def test_a_trace_export_becomes_a_line_for_each_handoff(beside):
    lines = split_line(json.dumps(beside | {"document": EXPORT} if beside else EXPORT).encode())
    assert [json.loads(line)["document"]["data"][-1]["id"] for line in lines] == ["b", "c"]
    kept = {name: value for name, value in beside.items() if name in ("format", "trace_id")}
    assert all({**json.loads(line), "document": 0} == kept | {"document": 0} for line in lines)
    assert not any(b"prompt" in line for line in lines)
    assert all(f'"order":{LONG}'.encode() in line for line in lines)


@pytest.mark.parametrize(
    "sent",
    [
        {"data": EXPORT["data"][:2]},
        {"data": [SAID]},
        {"document": EXPORT, "format": "payload"},
        {"document": "trace.span"},
        ["trace.span"],
    ],
)
def test_other_lines_stay_as_they_are(sent):
    line = json.dumps(sent).encode()
    assert split_line(line) == [line]
    assert split_line(line + b"}") == [line + b"}"]
