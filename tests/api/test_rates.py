"""How often a key may ask."""

from handoffaudit.api import rates
from handoffaudit.api.rates import RequestRate


def test_what_is_within_the_rate_need_not_wait() -> None:
    rate = RequestRate()
    assert [rate.seconds_to_wait(1, 2) for _ in range(3)] == [0, 0, rates.WINDOW_SECONDS]


def test_each_key_has_a_rate_of_its_own() -> None:
    rate = RequestRate()
    assert [rate.seconds_to_wait(key, 1) for key in (1, 2)] == [0, 0]


def test_a_new_window_begins_when_the_old_one_is_over(monkeypatch) -> None:
    monkeypatch.setattr(rates, "WINDOW_SECONDS", 0)
    rate = RequestRate()
    assert [rate.seconds_to_wait(1, 1) for _ in range(3)] == [0, 0, 0]
