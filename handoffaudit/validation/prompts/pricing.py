"""The cost of a call to an LLM: estimated before the call, and computed from its tokens afterwards."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

# Current LLMs think before they answer, and the service bills the tokens of their thoughts as answer tokens.
ROOM_FOR_THINKING: Final = 4096

# The densest prose has about 2.5 characters per token with current LLMs. Scripts other than Latin have fewer characters
# per token, and more bytes per character.
_BYTES_PER_TOKEN = 2

# The service adds these tokens to a prompt so that the answer follows its schema.
_ADDED_TOKENS = 500

_MILLION = 1_000_000

# A number above every price. This limit also excludes `1e999`, which JSON reads as infinite, and whole numbers that are
# too large for a float.
_DEAREST = 1e9


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an LLM in USD per million tokens.

    `cached` is the price of prompt tokens that came from the service's cache.
    """

    input: float
    output: float
    cached: float


# List prices of Anthropic's own service, November 2026, by a part of the LLM's name; the first part that matches
# counts. Some LLMs cost more for a prompt of over 100,000 tokens, but the product never sends such a long prompt.
SHIPPED: Final[Mapping[str, Price]] = MappingProxyType(
    {
        "haiku-5-5": Price(0.10, 0.50, 0.01),
        "haiku": Price(1.0, 5.0, 0.10),
        "sonnet-5-5": Price(2.0, 10.0, 0.10),
        "sonnet-5": Price(2.0, 10.0, 0.20),
        "sonnet": Price(3.0, 15.0, 0.30),
        "opus-5-5": Price(4.0, 20.0, 0.20),
        "opus-5": Price(5.0, 25.0, 0.50),
        "opus": Price(15.0, 75.0, 1.50),
        "fable": Price(10.0, 50.0, 1.0),
        "mythos": Price(10.0, 50.0, 1.0),
    }
)


def price_of(model: str, prices: Mapping[str, Price] = SHIPPED) -> Price:
    """Return the price of an LLM. An unknown LLM has the price of the most expensive LLM."""
    name = model.lower()
    found = next((price for part, price in prices.items() if part in name), None)
    return found or max([*prices.values(), *SHIPPED.values()], key=lambda price: price.output)


def cost(
    model: str, *, tokens_in: int, tokens_out: int, tokens_cached: int, prices: Mapping[str, Price] = SHIPPED
) -> float:
    """Return the cost of a call in USD.

    `tokens_in` are the prompt tokens that did not come from a cache.
    """
    price = price_of(model, prices)
    return (tokens_in * price.input + tokens_cached * price.cached + tokens_out * price.output) / _MILLION


def estimate_call_cost(model: str, sent_size: int, answer_tokens: int, prices: Mapping[str, Price] = SHIPPED) -> float:
    """Estimate the cost of a call in USD. The estimate is more likely too high than too low.

    `sent_size` is the size of the prompt in bytes; plain English has one byte per character. `answer_tokens` are the
    tokens of the answer. The estimate adds the tokens of the LLM's thoughts.
    """
    tokens_in = sent_size // _BYTES_PER_TOKEN + _ADDED_TOKENS
    tokens_out = answer_tokens + ROOM_FOR_THINKING
    return cost(model, tokens_in=tokens_in, tokens_out=tokens_out, tokens_cached=0, prices=prices)


def read_prices(text: str) -> Mapping[str, Price]:
    """Return the shipped prices, preceded by the prices in `text`.

    `text` is a JSON object such as `{"sonnet-5-5": {"input": 2, "output": 10, "cached": 0.1}}`; empty text changes
    nothing. Without `cached`, cached tokens cost as much as other prompt tokens.

    Raises ValueError for any other text, for an empty name, and for a number below 0 or above `_DEAREST`. Also raises
    ValueError for a price without `input` or `output` or with an unknown field.
    """
    if not text.strip():
        return SHIPPED
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ValueError("the prices are not a JSON object")  # noqa: TRY004 -- the value of a setting is wrong
    own = {part.lower(): _price(part, one) for part, one in given.items()}
    return {**own, **{part: price for part, price in SHIPPED.items() if part not in own}}


def _price(part: str, given: Any) -> Price:
    if not part.strip():
        raise ValueError("a name is empty, and would be part of every LLM's name: name an LLM, such as sonnet-5-5")
    if not isinstance(given, dict) or not {"input", "output"} <= given.keys() <= {"input", "output", "cached"}:
        raise ValueError(f'the price of "{part}" must have "input" and "output", and may have "cached"')
    for value in given.values():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _DEAREST:
            raise ValueError(f'the price of "{part}" has {value!r:.40}: give USD per million tokens, 0 or more')
    return Price(
        float(given["input"]), float(given["output"]), float(given["cached"] if "cached" in given else given["input"])
    )
