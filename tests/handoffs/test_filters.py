"""Tests of filters read from query strings and written back."""

from datetime import UTC, datetime, timedelta

import pytest
from django.http import QueryDict
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import State


def read(query: str) -> Filters:
    return Filters.from_query(QueryDict(query))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", Filters()),
        (
            "type=deal_data&source=a&target=b&code=chain.circular&trace=t&flag=parked",
            Filters((), "deal_data", "a", "b", "chain.circular", "t", flag="parked"),
        ),
        ("state=held&state=rejected", Filters(state=("held", "rejected"))),
        ("state=held,rejected,held,", Filters(state=("held", "rejected"))),
        ("since=2026-02-15", Filters(since=datetime(2026, 2, 15, tzinfo=UTC))),
        ("until=2026-02-15T09:30:00%2B02:00", Filters(until=datetime(2026, 2, 15, 7, 30, tzinfo=UTC))),
        ("since=2026-02-15T09:30", Filters(since=datetime(2026, 2, 15, 9, 30, tzinfo=UTC))),
        ("quality_min=0.25&quality_max=1", Filters(quality_min=0.25, quality_max=1.0)),
        ("type=%20deal_data%20&unknown=1", Filters(handoff_type="deal_data")),
        ("source=%22%20planner%0A%22&target=%22writer%22", Filters(source=" planner\n", target='"writer"')),
    ],
)
def test_an_address_is_read(query: str, expected: Filters) -> None:
    assert read(query) == expected
    assert bool(expected) is bool(query)


@pytest.mark.parametrize(
    ("query", "ago"), [("24h", timedelta(hours=24)), ("7d", timedelta(days=7)), ("0h", timedelta())]
)
def test_a_period_is_counted_from_now_and_written_as_it_was_asked(query: str, ago: timedelta) -> None:
    filters = read(f"since={query}")
    assert abs(timezone.now() - ago - filters.since) < timedelta(seconds=60)
    assert filters.to_query() == f"since={query}"


@pytest.mark.parametrize(
    ("query", "field", "remedy"),
    [
        ("state=heldd", "state", "held"),
        ("state=held&state=x", "state", "held"),
        ("flag=late", "flag", "overdue"),
        ("since=yesterday", "since", "24h"),
        ("since=2026-02-30", "since", "24h"),
        ("until=0001-01-01", "until", "24h"),
        ("until=9999-12-31T23:59:59Z", "until", "24h"),
        ("until=12345d", "until", "24h"),
        ("to=9000-12-31", "to", "a day"),
        ("quality_min=-0.1", "quality_min", "0 to 1"),
        ("quality_max=nan", "quality_max", "0 to 1"),
        ("quality_max=much", "quality_max", "0 to 1"),
        ("source=a%00b", "source", "NUL"),
        ("trace=" + "x" * 201, "trace", "200"),
    ],
)
def test_what_cannot_be_read_is_said_with_field_value_and_remedy(query: str, field: str, remedy: str) -> None:
    with pytest.raises(FilterError) as told:
        read(query)
    assert told.value.field == field
    assert told.value.value[:3] in query.replace("%00", "\0")
    assert remedy in told.value.remedy


def texts() -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30).map(str.strip)


@given(
    st.builds(
        Filters,
        state=st.lists(st.sampled_from(State.values), unique=True).map(tuple),
        handoff_type=texts(),
        source=texts(),
        code=texts(),
        trace=texts(),
        since=st.none()
        | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)).map(
            lambda at: at.replace(microsecond=0, tzinfo=UTC)
        ),
        quality_min=st.none() | st.integers(0, 100).map(lambda value: value / 100),
        flag=st.sampled_from(["", "parked", "overdue"]),
    )
)
def test_what_is_written_is_read_again(filters: Filters) -> None:
    assert read(filters.to_query()) == filters


@pytest.mark.parametrize("name", [" q", '" q "', '"" q ""', '"', '""', '"q"', '" '])
def test_a_name_with_quotes_and_blanks_is_read_as_it_was_written(name: str) -> None:
    assert read(Filters(source=name).to_query()) == Filters(source=name)


@given(
    st.dictionaries(
        st.sampled_from(["state", "type", "since", "until", "quality_min", "quality_max", "flag", "trace"]),
        st.text(max_size=20),
    )
)
def test_nothing_but_a_bad_filter_is_raised(params: dict[str, str]) -> None:
    wrong = None
    try:
        Filters.from_query(params)
    except FilterError as bad:
        wrong = bad.field
    assert wrong is None or wrong in params
