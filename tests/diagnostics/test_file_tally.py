"""Tests of shares: only all files show as 100 %, and only none as 0 %."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.diagnostics.file_stats import FileTally
from handoffaudit.handoffs.rates import Share, ShareChange
from tests.scale import examples


@pytest.mark.parametrize(
    ("part", "total", "told"),
    [
        (0, 0, "0/0 (n/a)"),
        (0, 3, "0/3 (0.0%)"),
        (3, 3, "3/3 (100.0%)"),
        (199, 200, "199/200 (99.5%)"),
        (99_999, 100_000, "99999/100000 (99.9%)"),
        (1, 100_000, "1/100000 (0.1%)"),
        (2, 3, "2/3 (66.7%)"),
    ],
)
def test_a_share_says_its_numbers_and_its_percentage(part: int, total: int, told: str):
    assert str(Share(part, total)) == told


@settings(max_examples=examples(50))
@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_only_all_is_a_hundred_and_only_none_is_nothing(part: int, more: int):
    share = Share(part, part + more)
    assert share.percent is not None
    assert share.percent < 100
    assert (share.percent == 0) == (part == 0)
    assert 0 <= share.at_least <= share.value + 1e-9


def test_one_failure_of_one_is_less_sure_than_many():
    assert Share(30, 40).at_least > Share(1, 1).at_least > Share(5, 100).at_least > Share(0, 100).at_least == 0


def test_a_change_is_told_in_points_and_less_can_be_better():
    better = ShareChange(Share(75, 100), Share(50, 100))
    assert (better.points, better.direction, better.fewer, better.few) == (25.0, "better", "worse", False)
    worse = ShareChange(Share(1, 4), Share(2, 4))
    assert (worse.points, worse.direction, worse.fewer, worse.few) == (-25.0, "worse", "better", True)
    assert ShareChange(Share(1, 2), Share(2, 4)).direction == "same"
    assert ShareChange(Share(1, 2), Share(0, 0)).direction == ShareChange(Share(1, 2), Share(0, 0)).fewer == "none"


def test_a_tally_knows_its_total_and_what_most_of_it_is():
    tally = FileTally(used=6, file_missing=1, json_parse_error=3, fallback_ok=4)
    assert (tally.total, str(tally.share), tally.main_reason) == (10, "6/10 (60.0%)", "json_parse_error")
    assert FileTally(used=2).main_reason == ""
    assert FileTally.of([tally, FileTally(used=1)]).rest(tally) == FileTally(used=1)
    assert FileTally(used=1).rest(FileTally(used=2)) == FileTally()
