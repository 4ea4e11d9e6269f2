"""Tests of the circuit breaker of LLM calls."""

from datetime import UTC, datetime, timedelta

import pytest

from handoffaudit.llm.calls import Breaker, is_outage
from handoffaudit.validation.prompts.question import Reason, Unavailable

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def opened() -> Breaker:
    breaker = Breaker()
    for _ in range(5):
        breaker = breaker.record_failure(NOW, "overloaded")
    return breaker


def test_it_opens_after_several_failures_in_a_row():
    breaker = Breaker()
    for number in range(1, 5):
        breaker = breaker.record_failure(NOW, "timeout")
        assert (breaker.failures, breaker.open_until) == (number, None)
        assert breaker.admit(NOW) == (breaker, True)
    breaker = breaker.record_failure(NOW, "overloaded")
    assert breaker == Breaker(failures=5, open_until=after(30), reason="overloaded")


def test_an_answer_in_between_begins_the_count_anew():
    breaker = Breaker()
    for _ in range(20):
        breaker = breaker.record_failure(NOW, "timeout").record_failure(NOW, "timeout").record_success()
    assert breaker == Breaker()


def test_while_it_is_open_nobody_asks():
    for seconds in (0, 15, 29.9):
        assert opened().admit(after(seconds)) == (opened(), False)


def test_then_one_probe_is_admitted_and_no_second():
    probing, admitted = opened().admit(after(30))
    assert admitted
    for seconds in (30, 31, 119):
        assert probing.admit(after(seconds)) == (probing, False)


def test_an_answer_to_the_probe_closes_it():
    probing, _ = opened().admit(after(30))
    assert probing.record_success().admit(after(31)) == (Breaker(), True)


def test_a_failed_probe_opens_it_anew():
    probing, _ = opened().admit(after(30))
    again = probing.record_failure(after(32), "timeout")
    assert again == Breaker(failures=6, open_until=after(62), reason="timeout")
    assert again.admit(after(61)) == (again, False)
    assert again.admit(after(62))[1]


def test_a_probe_that_never_reports_back_makes_room_for_another():
    probing, _ = opened().admit(after(30), probe_seconds=10)
    assert not probing.admit(after(39), probe_seconds=10)[1]
    second, admitted = probing.admit(after(40), probe_seconds=10)
    assert (admitted, second.probing_until) == (True, after(50))


def test_calls_that_began_before_it_opened_prolong_nothing():
    late = opened().record_failure(after(20), "timeout")
    assert (late.failures, late.open_until) == (6, after(30))


def test_its_limits_are_arguments():
    assert Breaker().record_failure(NOW, "timeout", limit=1, seconds=5).open_until == after(5)
    assert Breaker().record_failure(NOW, "timeout", limit=2).open_until is None


@pytest.mark.parametrize(
    ("reason", "status", "outage"),
    [
        (Reason.TIMEOUT, None, True),
        (Reason.RATE_LIMIT, 429, True),
        (Reason.OVERLOADED, 529, True),
        (Reason.SERVER_ERROR, 500, True),
        (Reason.CONNECTION, None, True),
        (Reason.REFUSED, 401, True),
        (Reason.REFUSED, 403, True),
        (Reason.REFUSED, 404, True),
        (Reason.REFUSED, 400, False),
        (Reason.REFUSED, 413, False),
        (Reason.MALFORMED_ANSWER, None, False),
        (Reason.BREAKER_OPEN, None, False),
        (Reason.NO_KEY, None, False),
        (Reason.BUDGET, None, False),
        (Reason.TOO_DEAR, None, False),
    ],
)
def test_what_counts_as_a_failure_of_the_service(reason, status, outage):
    assert is_outage(Unavailable(reason, "", status=status)) is outage
