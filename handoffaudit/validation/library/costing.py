"""What a call to a model costs at most, estimated before it is made."""

from dataclasses import dataclass

_CHARACTERS_PER_TOKEN = 3


@dataclass(frozen=True, slots=True)
class Price:
    """USD for a million tokens."""

    input: float
    output: float


# list prices by family; a model of no known family is taken to cost what the dearest does
_BY_FAMILY = {"haiku": Price(1.0, 5.0), "sonnet": Price(3.0, 15.0), "opus": Price(15.0, 75.0)}
_DEAREST = max(_BY_FAMILY.values(), key=lambda price: price.output)


def estimated_cost(model: str, sent_characters: int, answer_tokens: int) -> float:
    """USD for sending a text and getting an answer of that many tokens. Rather too high than too low."""
    price = next((price for family, price in _BY_FAMILY.items() if family in model.lower()), _DEAREST)
    sent_tokens = sent_characters / _CHARACTERS_PER_TOKEN
    return (sent_tokens * price.input + answer_tokens * price.output) / 1_000_000
