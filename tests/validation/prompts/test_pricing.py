"""Tests of the estimated and the actual cost of an LLM call."""

import pytest

from handoffaudit.validation.prompts.pricing import (
    ROOM_FOR_THINKING,
    SHIPPED,
    Price,
    cost,
    estimate_call_cost,
    price_of,
    read_prices,
)


@pytest.mark.parametrize(
    ("model", "part"),
    [
        ("claude-haiku-5-5", "haiku-5-5"),
        ("anthropic.claude-haiku-5-5", "haiku-5-5"),
        ("claude-haiku-4-5-20251001", "haiku"),
        ("claude-sonnet-5-5", "sonnet-5-5"),
        ("claude-sonnet-5", "sonnet-5"),
        ("claude-sonnet-4-6", "sonnet"),
        ("Claude-Opus-5-5", "opus-5-5"),
        ("claude-opus-5", "opus-5"),
        ("claude-opus-4-1", "opus"),
    ],
)
def test_a_model_has_the_price_of_the_part_that_names_it_best(model, part):
    assert price_of(model) == SHIPPED[part]


def test_an_unknown_model_costs_what_the_dearest_does():
    assert price_of("house-model") == SHIPPED["opus"]
    assert price_of("house-model", {"haiku": Price(900, 900, 900)}) == Price(900, 900, 900)


def test_tokens_from_the_cache_have_a_price_of_their_own():
    price = Price(1.0, 10.0, 0.1)
    spent = cost("x", tokens_in=1000, tokens_out=100, tokens_cached=5000, prices={"x": price})
    assert spent == pytest.approx((1000 * 1.0 + 100 * 10.0 + 5000 * 0.1) / 1_000_000)


def test_the_estimate_is_no_lower_than_what_the_answer_may_cost():
    """The densest text that the LLM's vendor names has 2.5 characters per token."""
    for model in SHIPPED:
        most = cost(model, tokens_in=30_000 * 10 // 25, tokens_out=1024 + ROOM_FOR_THINKING, tokens_cached=0)
        assert most <= estimate_call_cost(model, 30_000, 1024)


def test_the_largest_critique_by_the_careful_model_stays_below_its_limit():
    assert estimate_call_cost("claude-sonnet-5-5", 40_000, 1024) < 0.10


@pytest.mark.parametrize("text", ["", "  "])
def test_nothing_given_changes_nothing(text):
    assert read_prices(text) == SHIPPED


def test_own_prices_come_before_those_shipped():
    prices = read_prices('{"Sonnet": {"input": 1, "output": 2, "cached": 0.5}, "house": {"input": 0, "output": 0}}')
    assert price_of("claude-sonnet-5-5", prices) == Price(1, 2, 0.5)
    assert price_of("house-model", prices) == Price(0, 0, 0)
    assert price_of("claude-haiku-5-5", prices) == SHIPPED["haiku-5-5"]


@pytest.mark.parametrize(
    "text",
    [
        "dear",
        "5",
        "[1]",
        "[]",
        "[[1, {}]]",
        "[" * 100_000,
        '{"x": 5}',
        '{"x": {"input": 1}}',
        '{"x": {"input": 1, "output": 2, "thinking": 3}}',
        '{"x": {"input": -1, "output": 2}}',
        '{"x": {"input": "1", "output": 2}}',
        '{"x": {"input": true, "output": 2}}',
        '{"x": {"input": NaN, "output": 2}}',
    ],
)
def test_prices_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="price"):
        read_prices(text)
