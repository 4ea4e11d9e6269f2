"""Tests of the number and the times of tries, with a clock that only the caller's waits move."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from handoffaudit.llm.calls import Caller, Reply, Usage
from handoffaudit.validation.prompts.pricing import Price
from handoffaudit.validation.prompts.question import Reason, Role, Unavailable
from tests.llm.asked import question
from tests.llm.conftest import MODELS

VALID = Reply('{"valid": true, "issues": []}', "claude-haiku-5-5", Usage(10, 5, 0), "end_turn")


@dataclass
class Clock:
    now: float = 100.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@dataclass
class Client:
    """A client with scripted answers; each request takes `takes` seconds."""

    clock: Clock
    gives: list[Reply | Unavailable]
    takes: float = 0.0
    asked: list[dict[str, Any]] = field(default_factory=list)

    def complete(self, **request: Any) -> Reply:
        self.asked.append({**request, "messages": list(request["messages"])})
        self.clock.now += self.takes
        given = self.gives.pop(0)
        if isinstance(given, Unavailable):
            raise given
        return given


def caller_of(
    gives: Iterable[Reply | Unavailable], *, takes: float = 0.0, random: float = 1.0, **more: Any
) -> tuple[Caller, Client, Clock]:
    clock = Clock()
    client = Client(clock, list(gives), takes)
    caller = Caller(client, MODELS, sleep=clock.sleep, monotonic=lambda: clock.now, random=lambda: random, **more)
    return caller, client, clock


def overloaded(retry_after: float | None = None) -> Unavailable:
    return Unavailable(Reason.OVERLOADED, "Overloaded.", retry_after=retry_after, status=529)


def test_waits_grow_twofold_up_to_a_limit():
    caller, _, clock = caller_of([overloaded()] * 8, tries=8, seconds=1000)
    assert caller.call(question()).tries == 8
    assert clock.waits == [1, 2, 4, 8, 16, 16, 16]


@pytest.mark.parametrize(("random", "waits"), [(0.0, [0, 0]), (0.5, [0.5, 1.0]), (0.25, [0.25, 0.5])])
def test_waits_are_spread_over_all_of_that_time(random, waits):
    caller, _, clock = caller_of([overloaded()] * 3, random=random)
    caller.call(question())
    assert clock.waits == waits


def test_retry_after_is_waited_for_with_a_little_spread():
    caller, _, clock = caller_of([overloaded(7), overloaded(0), VALID], random=0.5)
    assert caller.call(question()).error is None
    assert clock.waits == [7.5, 0.5]


def test_a_retry_after_beyond_the_limit_ends_the_call_at_once():
    caller, client, clock = caller_of([overloaded(61)])
    call = caller.call(question())
    assert (call.error.reason, call.error.retry_after, call.tries) == (Reason.OVERLOADED, 61, 1)
    assert (len(client.asked), clock.waits) == (1, [])


def test_no_try_begins_after_the_limit():
    caller, client, _ = caller_of([overloaded()] * 3, takes=29.5)
    call = caller.call(question())
    assert (call.error.reason, call.tries) == (Reason.OVERLOADED, 2)
    assert [round(one["seconds"], 1) for one in client.asked] == [60.0, 29.5]
    assert call.latency_ms == pytest.approx(60_000)


def test_a_malformed_answer_is_not_asked_about_after_the_limit():
    caller, client, _ = caller_of([Reply("no", "", Usage(10, 5, 0), "end_turn")], takes=61)
    call = caller.call(question())
    assert (call.error.reason, call.tries, len(client.asked)) == (Reason.TIMEOUT, 1, 1)
    assert call.usage == Usage(10, 5, 0)


@pytest.mark.parametrize("reason", [Reason.REFUSED, Reason.NO_KEY, Reason.BUDGET])
def test_what_no_waiting_helps_is_not_tried_again(reason):
    caller, client, clock = caller_of([Unavailable(reason, "No.")])
    assert caller.call(question()).error.reason is reason
    assert (len(client.asked), clock.waits) == (1, [])


def test_the_malformed_answers_one_repeat_is_beside_the_tries():
    bad = Reply("no", "", Usage(), "end_turn")
    caller, _, _ = caller_of([overloaded(), overloaded(), bad, VALID])
    assert caller.call(question()).tries == 4
    caller, _, _ = caller_of([bad, VALID], tries=1)
    assert caller.call(question()).error is None


def test_an_outage_after_a_malformed_answer_goes_on_with_that_conversation():
    caller, client, _ = caller_of([Reply("no", "", Usage(), "end_turn"), overloaded(), VALID])
    assert caller.call(question()).error is None
    assert [len(one["messages"]) for one in client.asked] == [1, 3, 3]


def test_a_long_answer_is_shown_back_cut():
    caller, client, _ = caller_of([Reply("x" * 100_000, "", Usage(), "end_turn"), VALID])
    caller.call(question())
    assert len(client.asked[1]["messages"][1]["content"]) == 20_000


def test_an_answer_that_would_cost_too_much_is_not_asked_for():
    caller, client, _ = caller_of([VALID])
    estimate = caller.estimate(question())
    call = caller.call(question(max_cost_usd=estimate * 0.99))
    assert (call.error.reason, call.tries, call.cost_usd, client.asked) == (Reason.TOO_DEAR, 0, 0, [])
    assert f"{estimate:.4f} USD" in call.error.detail
    assert caller.call(question(max_cost_usd=estimate)).error is None


def test_prices_are_the_callers():
    caller, _, _ = caller_of([VALID], prices={"haiku": Price(1_000_000, 2_000_000, 0)})
    assert caller.call(question()).cost_usd == 10 + 5 * 2


def test_text_of_other_scripts_is_estimated_higher():
    caller, _, _ = caller_of([])
    assert caller.estimate(question(content="承" * 1000)) > caller.estimate(question(content="a" * 1000))


def test_a_bug_of_ours_is_not_an_outage():
    def read(_text: str) -> None:
        raise ZeroDivisionError

    caller, _, _ = caller_of([VALID])
    with pytest.raises(ZeroDivisionError):
        caller.call(question(read=read))


def test_each_role_has_its_model():
    caller, client, _ = caller_of([VALID, VALID])
    assert [caller.call(question(role=role)).answer.model for role in Role] == list(MODELS.values())
    assert [one["model"] for one in client.asked] == list(MODELS.values())
