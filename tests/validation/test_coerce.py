"""Tests of values that are converted where exactly one conversion exists, and left alone otherwise."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.validation.coerce import as_checksum, as_storable, as_utc, as_uuid, convert

DIGEST = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("value", "types", "expected"),
    [
        (17, ["string"], "17"),
        (0.1 + 0.2, ["string"], "0.30000000000000004"),
        (2**80, ["string"], None),
        (True, ["string"], None),
        ("17", ["integer"], 17),
        ("17.0", ["integer"], 17),
        ("17.5", ["integer"], None),
        ("9007199254740993", ["integer"], None),
        ("12345678901234567890", ["number"], None),
        ("12345678901234567890.0", ["integer"], None),
        ("9007199254740993.0", ["number"], None),
        ("1e300", ["number"], 1e300),
        (" 17.5 ", ["number"], 17.5),
        ("1e400", ["number"], None),
        ("nan", ["number"], None),
        ("0e99999999999999999999", ["number"], None),
        ("1_000", ["number"], None),
        ("٣", ["number"], None),
        ("9" * 41, ["number"], None),
        (17.0, ["integer"], 17),
        (17.5, ["integer"], None),
        ("True", ["boolean"], True),
        ("no", ["boolean"], None),
        (1, ["boolean"], None),
        ("brief", ["array"], ["brief"]),
        ("text", ["object"], None),
        ({}, ["array"], None),
        (None, ["string"], None),
    ],
)
def test_types(value: Any, types: list[str], expected: Any) -> None:
    found = convert(value, types)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-02-01T09:00:00+01:00", "2026-02-01T08:00:00Z"),
        ("2026-02-01T08:00:00.5Z", "2026-02-01T08:00:00.500000Z"),
        ("2026-02-01", "2026-02-01T00:00:00Z"),
        (1769932800.5, "2026-02-01T08:00:00.500000Z"),
        (17, None),
        (True, None),
        (float("inf"), None),
        (10**400, None),
        ("0001-01-01T00:00:00+23:59", None),
        ("yesterday", None),
        ("2026-02-01T08:00:00Z" * 9, None),
        (None, None),
    ],
)
def test_times(value: Any, expected: str | None) -> None:
    assert as_utc(value) == expected


def test_uuids_and_checksums() -> None:
    assert as_uuid("{D53A8F7E-049D-4F0D-910F-824BA3BF6E11}") == "d53a8f7e-049d-4f0d-910f-824ba3bf6e11"
    assert as_uuid("trace-17") is None
    assert as_uuid("a" * 10**6) is None
    assert as_checksum(DIGEST.upper()) == f"sha256:{DIGEST}"
    assert as_checksum(f"SHA256:{DIGEST}") == f"sha256:{DIGEST}"
    assert as_checksum(f"md5:{DIGEST}") is None
    assert as_checksum(17) is None


def test_what_cannot_be_stored_is_taken_out() -> None:
    assert as_storable("a\0b\ud800") == "ab"
    assert as_storable("ab\n") is None


ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2)


@given(ANY, st.lists(st.sampled_from(["string", "number", "integer", "boolean", "array", "object", "null"])))
def test_nothing_raises(value: Any, types: list[str]) -> None:
    convert(value, types)
    as_utc(value)
    as_uuid(value)
    as_checksum(value)
