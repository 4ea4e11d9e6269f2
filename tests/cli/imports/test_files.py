import codecs
import gzip
import io
import json
import sys

import pytest

from handoffaudit.cli import Stop, documents
from handoffaudit.cli.documents import Documents, Source


def pieces(path):
    return [(piece.number, piece.text) for piece in Source(str(path)).pieces()]


def test_lines_keep_their_numbers_past_empty_ones(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n\n  {"b": 2} \r\nbroken\n{"c": 3}')
    assert pieces(path) == [(1, b'{"a": 1}'), (3, b'{"b": 2}'), (4, b"broken"), (5, b'{"c": 3}')]


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a.json.gz"])
def test_one_document_over_several_lines_is_one(tmp_path, name):
    text = json.dumps({"a": 1, "b": [1, 2]}, indent=2).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert pieces(tmp_path / name) == [(1, text)]


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_not_part_of_the_first_document(tmp_path, packed):
    lines = codecs.BOM_UTF8 + b'{"a": 1}\r\n{"b": 2}\r\n'
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(lines) if packed else lines)
    assert pieces(path) == [(1, b'{"a": 1}'), (2, b'{"b": 2}')]
    assert [piece.number for piece in Documents(str(path)).pieces()] == [1, 2]
    path.write_bytes(codecs.BOM_UTF8 + b'[{"a": 1}, 2]')
    assert pieces(path) == [(1, b'{"a": 1}'), (2, b"2")]


@pytest.mark.parametrize("chunk", [1, 7, 1024])
def test_the_items_of_an_array_keep_their_bytes(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(documents, "ARRAY_CHUNK", chunk)
    items = [b'{"a": 1.50, "b" : "\xc3\xa9\\u00e9, ]["}', b"12345", b"[1,  2]", b'"text"', b"null"]
    path = tmp_path / "a.json"
    path.write_bytes(b" [\n" + b" ,\n".join(items) + b"\n] \n")
    assert pieces(path) == list(enumerate(items, 1))


def test_an_array_that_breaks_off_gives_what_came_before(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"a": 1},\n{"b": 2}, {"c"')
    found = Source(str(path)).pieces()
    assert next(found).text == b'{"a": 1}'
    assert next(found).text == b'{"b": 2}'
    with pytest.raises(Stop, match=r"Item 3 of the array in .* is not valid JSON"):
        next(found)


def test_gzip_is_known_by_its_content(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(b'{"a": 1}\n{"b": 2}\n'))
    assert pieces(path) == [(1, b'{"a": 1}'), (2, b'{"b": 2}')]


def test_damaged_gzip_gives_what_came_before(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 50_000)[:-20])
    found = Source(str(path)).pieces()
    assert next(found).text == b'{"a": 1}'
    with pytest.raises(Stop, match="is damaged"):
        list(found)


def test_a_line_that_is_too_long_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LONGEST", 100)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1\n" + b"x" * 1000 + b"\n" + b"y" * 99 + b"\n2")
    assert pieces(path) == [(1, b"1"), (2, None), (3, b"y" * 99), (4, b"2")]


def test_standard_input_is_read(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}\n{"b": 2}\n')))
    source = Source("-")
    assert [piece.text for piece in source.pieces()] == [b'{"a": 1}', b'{"b": 2}']
    assert source.size == 0


def test_read_bytes_reach_the_size(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000))
    source = Source(str(path))
    assert len(list(source.pieces())) == 1000
    assert source.read_bytes == source.size == path.stat().st_size


def test_an_empty_file_has_nothing(tmp_path):
    (tmp_path / "a.jsonl").touch()
    assert pieces(tmp_path / "a.jsonl") == []


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("source", [Source, Documents])
@pytest.mark.parametrize("length", [8_192, 60_000, 70_000])
def test_lines_are_told_from_a_document_although_the_first_is_long(tmp_path, source, length, packed):
    start = b'{"a": "'
    first = start + b"x" * (length - len(start) - 2) + b'","b": 1}'
    text = first + b'\n{"c": 2}\n'
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(text) if packed else text)
    assert [piece.text for piece in source(str(path)).pieces()] == [first, b'{"c": 2}']


def test_the_last_character_of_an_incomplete_line_decides_nothing(tmp_path):
    start = b'{"a": "'
    first = start + b"x" * (documents.BUFFER_BYTES - len(start) - 2) + b'","b": 1}'
    (tmp_path / "a.txt").write_bytes(first + b"\n{}\n")
    assert pieces(tmp_path / "a.txt") == [(1, first), (2, b"{}")]


def test_a_byte_that_is_not_utf8_stays_in_its_item_of_an_array(tmp_path):
    (tmp_path / "a.json").write_bytes(b'[{"a": 1},\n {"b": "caf\xe9"}, 3]')
    assert pieces(tmp_path / "a.json") == [(1, b'{"a": 1}'), (2, b'{"b": "caf\xe9"}'), (3, b"3")]


def damaged(data: bytes) -> bytes:
    """Return a gzip stream of several chunks whose last bytes are missing."""
    return gzip.compress(data, 0)[:-10_000]


def test_chunks_before_the_damage_are_read(tmp_path):
    data = bytes(range(256)) * 1000
    path = tmp_path / "a.gz"
    path.write_bytes(damaged(data))
    read = []
    with pytest.raises(Stop, match="is damaged"):
        read.extend(Source(str(path)).chunks())
    assert len(b"".join(read)) > len(data) - 11_000
    assert data.startswith(b"".join(read))


def test_items_before_the_damage_are_read(tmp_path):
    items = [b'{"number": %06d}' % (100_000 + at) for at in range(20_000)]
    path = tmp_path / "a.json.gz"
    path.write_bytes(damaged(b"[%s]" % b",\n".join(items)))
    read = []
    with pytest.raises(Stop, match="is damaged"):
        read.extend(piece.text for piece in Source(str(path)).pieces())
    assert len(read) > 19_000
    assert read == items[: len(read)]


@pytest.mark.parametrize("text", [b'{"a": "%s"}', b'[{"a": "%s"},\n{}', b'{"a": "%s",\n"b": 1}'])
def test_a_document_with_a_long_first_line_stays_one(tmp_path, text):
    (tmp_path / "a").write_bytes(text % (b"x" * 70_000))
    assert [piece.text for piece in Documents(str(tmp_path / "a")).pieces()] == [text % (b"x" * 70_000)]
