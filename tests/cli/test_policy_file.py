"""Tests of policy files: what is written is read, and hostile files are refused with a line."""

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handoffaudit.cli.policy_file import DEEPEST, MOST_BYTES, BadFile, read_file, write_file

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text() | st.sampled_from(
    ["on", "no", "1e5", "2026-02-15", "1_000", "012", "=", "<<", "~", "", "a\n b\n", "\r\n"]
)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
HEAD = "format: 1\npolicies:\n"


@example({"schemas": [-(2**63), 2**64 - 1]})
@given(st.dictionaries(TEXTS, VALUES, max_size=3))
def test_what_is_written_is_read(policies):
    assert repr(read_file(write_file(policies).encode()).policies) == repr(policies)


def test_words_of_yaml_1_1_are_texts():
    read = read_file(
        (HEAD + "  thresholds:\n    - {on: true, a: yes, b: 2026-02-15, c: 12:30, d: .5, e: ''}\n").encode()
    )
    (row,) = read.policies["thresholds"]
    assert row == {"on": True, "a": "yes", "b": "2026-02-15", "c": "12:30", "d": 0.5, "e": ""}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "not an object"),
        ("[]", 1, "not an object"),
        ("format: 2\npolicies: {}", 1, "The format is '2'"),
        ("format: true\npolicies: {}", 1, "The format is 'True'"),
        ("format: 1", 1, "no kinds"),
        ("format: 1\npolicies: []", 2, "no kinds"),
        (HEAD + "  a: []\nmore: 1", 4, "no such field: 'more'"),
        (HEAD + "  a: [\n", 4, "not YAML"),
        (HEAD + "  a: \t- x", 3, "not YAML"),
        (HEAD + "  a: 1\n  a: 2", 4, "twice"),
        (HEAD + "  a: &x [1]\n  b: *x", 3, "&x"),
        (HEAD + "  b: *x", 3, "*x"),
        (HEAD + "  a: !!python/object/apply:os.system ['x']", 3, "tag"),
        (HEAD + "  a: !!binary aGk=", 3, "tag"),
        (HEAD + "  a: 99999999999999999999", 3, "too large"),
        (HEAD + f"  a: {2**64}", 3, "too large"),
        (HEAD + f"  a: {-(2**63) - 1}", 3, "too large"),
        (HEAD + "  a: 1e999", 3, "too large"),
        (HEAD + "  ? [1]\n  : 2", 3, "not the name of a field"),
        (HEAD + "  a: 1\n---\nb: 2", 4, "second document"),
        (HEAD + "  a: " + "[" * DEEPEST, 3, "nested"),
        (HEAD + "  a: " + "[" * 100_000, 3, "nest"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(text, line, said):
    with pytest.raises(BadFile, match="(?s)" + re.escape(said)) as refused:
        read_file(text.encode())
    assert refused.value.line == line
    assert refused.value.remedy


@pytest.mark.parametrize("content", [b"\xff\xfe", b"format: 1\n\xff", b"a: \0", b"a: \x07"])
def test_bytes_that_are_no_text_are_refused(content):
    with pytest.raises(BadFile):
        read_file(content)


@pytest.mark.parametrize(
    "content", [b"x" * (MOST_BYTES + 1), (HEAD + "  a:\n" + "  - 1\n" * 250_000).encode(), b"{" * MOST_BYTES]
)
def test_large_files_are_refused_soon(content):
    started = time.monotonic()
    with pytest.raises(BadFile):
        read_file(content)
    assert time.monotonic() - started < 20
