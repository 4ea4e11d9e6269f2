"""Tests of RFC 3339 times, correct and malformed."""

from datetime import UTC, datetime

import pytest

from handoffaudit.validation.times import is_date_time, is_date_time_or_local, moment, utc_text


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-02-01T08:00:00Z", datetime(2026, 2, 1, 8, tzinfo=UTC)),
        ("2026-02-01t08:00:00z", datetime(2026, 2, 1, 8, tzinfo=UTC)),
        ("2026-02-01T08:00:00.1234567+05:30", datetime(2026, 2, 1, 2, 30, 0, 123456, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("1990-12-31T15:59:60-08:00", datetime(1990, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_read(text: str, at: datetime) -> None:
    read = moment(text)
    assert read is not None
    assert read.at == at
    assert is_date_time(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30T08:00:00Z",
        "2026-02-01 08:00:00Z",
        "2026-02-01T24:00:00Z",
        "2026-02-01T08:00:60Z",
        "2026-02-01T08:00:00+24:00",
        "2026-02-01T08:00:00+01:60",
        "2026-02-01T08:00:00+0100",
        "9999-12-31T23:59:59-12:00",
        "0000-01-01T00:00:00Z",
        "2026-02-01T08:00:00Z\n",
        "\uff12\uff10\uff12\uff16-02-01T08:00:00Z",
        "2026-02-01T08:00:00." + "1" * 100_000 + "Z",
        "2026-02-01",
        "",
    ],
)
def test_refused(text: str) -> None:
    assert not is_date_time(text)
    assert not is_date_time_or_local(text)


def test_without_an_offset_it_is_utc_and_no_rfc_3339() -> None:
    text = "2026-02-01T08:00:00"
    assert utc_text(moment(text).at) == "2026-02-01T08:00:00Z"
    assert is_date_time_or_local(text)
    assert not is_date_time(text)
