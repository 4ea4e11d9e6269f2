"""Tests of periods of whole hours, and of the periods that they are compared with."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.periods import HOUR, window_of
from tests.diagnostics.support import NOW

pytestmark = pytest.mark.usefixtures("_all_hours_kept")


def at(day: int, hour: int = 0, month: int = 2) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=UTC)


def test_a_length_ends_with_the_hour_under_way_and_is_compared_with_as_long_before():
    window = window_of({"period": "24h"}, NOW)
    assert (window.since, window.until) == (at(13, 16), at(14, 16))
    assert (window.before_since, window.before_until) == (at(12, 16), at(13, 16))
    assert window.label == "last 24 hours"
    assert window.query == {"period": "24h"}
    assert window.bounds == {"since": "2026-02-13T16:00:00Z", "until": "2026-02-14T16:00:00Z"}


def test_nothing_asked_for_is_a_week():
    assert window_of({}, NOW) == window_of({"period": "7d"}, NOW)


def test_since_monday_is_compared_with_the_week_before_monday():
    window = window_of({"period": "monday"}, NOW)
    assert (window.since, window.until) == (at(9), at(14, 16))
    assert (window.before_since, window.before_until) == (at(2), at(9))
    on_monday = window_of({"period": "monday"}, at(9, 0))
    assert (on_monday.since, on_monday.until) == (at(9), at(9, 1))


def test_dates_count_whole_hours_and_until_is_not_included():
    days = window_of({"since": "2026-02-01", "until": "2026-02-08"}, NOW)
    assert (days.since, days.until) == (at(1), at(8))
    assert (days.before_since, days.before_until) == (at(25, month=1), at(1))
    assert days.query == {"since": "2026-02-01T00:00:00Z", "until": "2026-02-08T00:00:00Z"}
    moments = window_of({"since": "2026-02-01T09:59:00Z", "until": "2026-02-01T10:00:01Z"}, NOW)
    assert (moments.since, moments.until) == (at(1, 9), at(1, 11))
    assert window_of({"since": "2026-02-01"}, NOW).until == at(14, 16)


def test_the_period_before_a_long_window_begins_in_1970_at_the_earliest():
    far = window_of({"since": "1980-01-01", "until": "9000-01-01"}, NOW)
    assert (far.before_since, far.before_until) == (datetime(1970, 1, 1, tzinfo=UTC), far.since)
    earliest = window_of({"since": "1970-01-01T00:00:00+14:00"}, NOW)
    assert earliest.before_since == earliest.since


def test_what_an_address_says_is_read_back_as_the_same():
    for asked in ({"period": "30d"}, {"period": "monday"}, {"since": "2026-01-03T04:30:00Z", "until": "2026-02-03"}):
        window = window_of(asked, NOW)
        assert window_of(window.query, NOW) == window


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"period": "1y"}, "period"),
        ({"period": "0h"}, "period"),
        ({"period": "-3d"}, "period"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-02-08"}, "since"),
        ({"since": "2026-02-08", "until": "2026-02-01"}, "until"),
        ({"since": "2026-02-08", "until": "2026-02-08"}, "until"),
        ({"since": "2027-01-01"}, "until"),
        ({"since": "0001-01-01"}, "since"),
    ],
)
def test_what_cannot_be_read_names_the_parameter(asked: dict[str, str], field: str):
    with pytest.raises(FilterError) as caught:
        window_of(asked, NOW)
    assert caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize("period", ["1h", "24h", "48h", "7d", "30d", "90d", "365d", "3650d", "99999d"])
def test_bars_are_few_and_cover_all_of_it_once(period: str):
    now = datetime(2299, 2, 14, 15, 20, tzinfo=UTC)
    window = window_of({"period": period}, now)
    bars = window.scale.fill({}, 0)
    assert 1 <= len(bars) <= 32
    assert bars[0].since == window.since
    assert bars[-1].until == window.until
    assert all(one.until == following.since for one, following in pairwise(bars))
    assert window.step % HOUR == timedelta()
