"""The client and the caller that the settings ask for. Nothing of the SDK is loaded before a call is made."""

import os
from collections.abc import Mapping
from functools import lru_cache

from handoffaudit.llm.calling import SECONDS, TRIES, Caller
from handoffaudit.llm.claude import CONNECT_SECONDS, ClaudeClient
from handoffaudit.validation.asking.pricing import Price, read_prices
from handoffaudit.validation.asking.question import Role

PRICES_VARIABLE = "HANDOFFAUDIT_MODEL_PRICES"


@lru_cache(maxsize=8)
def client_from(
    provider: str, api_key: str = "", base_url: str = "", *, connect_seconds: float = CONNECT_SECONDS
) -> ClaudeClient | None:
    """None where Anthropic's own service is meant and there is no key. Bedrock and Vertex have credentials of their
    own, which are looked for when they are called. Equal arguments give the same client,
    with its one pool of connections."""
    key = api_key.strip()
    if provider == "anthropic" and not key:
        return None
    return ClaudeClient(provider, key, base_url.strip(), connect_seconds=connect_seconds)


def caller_from(
    client: ClaudeClient, *, fast: str, careful: str, seconds: float = SECONDS, tries: int = TRIES
) -> Caller:
    """A caller with a model for each role, and the prices that this process has."""
    return Caller(client, {Role.FAST: fast, Role.CAREFUL: careful}, seconds=seconds, tries=tries, prices=prices_here())


def prices_here() -> Mapping[str, Price]:
    """The shipped prices with those of `HANDOFFAUDIT_MODEL_PRICES`. Raises ValueError, which names the variable."""
    try:
        return read_prices(os.environ.get("HANDOFFAUDIT_MODEL_PRICES", ""))
    except ValueError as error:
        raise ValueError(f"{PRICES_VARIABLE}: {error}") from None
