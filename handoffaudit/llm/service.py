"""Builders of the LLM client and caller, and Claude for users of the validators as a library."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from handoffaudit.llm.calls import SECONDS, TRIES, Caller, Messages, Reply, read_complete
from handoffaudit.llm.claude import CONNECT_SECONDS, ClaudeClient
from handoffaudit.validation.prompts import layer_questions, pricing
from handoffaudit.validation.prompts.pricing import Price, read_prices
from handoffaudit.validation.prompts.question import ANSWER_TOKENS, Reason, Role, Unavailable, as_text, fence

PRICES_VARIABLE = "HANDOFFAUDIT_MODEL_PRICES"


@lru_cache(maxsize=8)
def build_client(
    provider: str, api_key: str = "", base_url: str = "", *, connect_seconds: float = CONNECT_SECONDS
) -> ClaudeClient | None:
    """Return a client, or None for the provider `anthropic` without a key.

    Bedrock and Vertex look for their credentials when a call is made. Equal arguments return the same client, which has
    one connection pool. Raises ValueError for an unknown provider.
    """
    key = api_key.strip()
    if provider == "anthropic" and not key:
        return None
    return ClaudeClient(provider, key, base_url.strip(), connect_seconds=connect_seconds)


def build_caller(
    client: ClaudeClient, *, fast: str, careful: str, seconds: float = SECONDS, tries: int = TRIES
) -> Caller:
    """Return a caller with an LLM for each role, and with the prices of `load_prices`.

    Raises ValueError if the prices are invalid.
    """
    return Caller(client, {Role.FAST: fast, Role.CAREFUL: careful}, seconds=seconds, tries=tries, prices=load_prices())


def load_prices() -> Mapping[str, Price]:
    """Return the default prices, updated with `HANDOFFAUDIT_MODEL_PRICES`.

    Raises ValueError, with the name of the variable, if its value is invalid.
    """
    try:
        return read_prices(os.environ.get("HANDOFFAUDIT_MODEL_PRICES", ""))
    except ValueError as error:
        raise ValueError(f"{PRICES_VARIABLE}: {error}") from None


# The settings have the same defaults, and are not read here: reading them would load Django.
FAST: Final = "claude-haiku-5-5"

CAREFUL: Final = "claude-sonnet-5-5"

# The schemas that the service enforces on answers, by the `purpose` in the metadata of a request.
_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {"handoff_semantic_validation": layer_questions.GROUNDING_SCHEMA}
)


class ClaudeService:
    """The LLM service for `SemanticValidator(ClaudeService())`.

    The default key comes from `ANTHROPIC_API_KEY`. The default address comes from `ANTHROPIC_BASE_URL`, which only the
    provider `anthropic` uses.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        provider: str = "anthropic",
        fast: str = FAST,
        careful: str = CAREFUL,
        seconds: float = SECONDS,
    ) -> None:
        self._api_key = api_key
        self._base_url = base_url
        self._provider = provider
        self._models = {"fast": fast, "careful": careful}
        self._seconds = seconds

    async def completion(
        self,
        *,
        messages: Sequence[Mapping[str, Any]],
        model: str = "fast",
        temperature: float = 0.0,
        max_tokens: int = ANSWER_TOKENS,
        metadata: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Ask the LLM once and return `content`, `model`, `usage` and `cost_usd`.

        `model` is a role, `fast` or `careful`, or the name of an LLM. The `purpose` in `metadata` selects the
        schema of the answer. `metadata` itself is not sent, and neither is `temperature`, which current LLMs reject.

        Raises `Unavailable` if no key is set or no answer came, and `MalformedAnswer` for a truncated or declined
        answer. Raises ValueError for an unknown provider or invalid prices.
        """
        name = self._models.get(model, model)
        system, asked = _split_system(messages)
        reply = await _client(self._provider, self._api_key, self._base_url).complete_async(
            model=name,
            system=system,
            messages=asked,
            schema=_SCHEMAS.get(str((metadata or {}).get("purpose")), {}),
            max_tokens=max_tokens,
            seconds=self._seconds,
        )
        usage = reply.usage
        return {
            "content": read_complete(reply),
            "model": name,
            "usage": {
                "tokens_in": usage.tokens_in,
                "tokens_out": usage.tokens_out,
                "tokens_cached": usage.tokens_cached,
            },
            "cost_usd": _cost(name, reply),
        }


def claude_critic(
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    provider: str = "anthropic",
    seconds: float = SECONDS,
) -> Callable[..., dict[str, Any]]:
    """Return a function that asks the LLM once, for `CritiqueValidator(call_llm=claude_critic())`.

    Key and address work as in `ClaudeService`. `CritiqueValidator` turns the exceptions of the function into a warning.
    """

    def call_llm(*, instructions: str, context: Mapping[str, Any], model: str) -> dict[str, Any]:
        reply = _client(provider, api_key, base_url).complete(
            model=model,
            system=instructions,
            messages=[{"role": "user", "content": _fence_parts(context)}],
            schema=layer_questions.OPINION_SCHEMA,
            max_tokens=ANSWER_TOKENS,
            seconds=seconds,
        )
        opinion = layer_questions.read_opinion(read_complete(reply))
        return {
            "overall_score": opinion.score,
            "issues": [
                {"code": one.code, "message": one.message, "severity": one.severity.value} for one in opinion.remarks
            ],
            "reasoning": opinion.reasoning,
            "cost_usd": _cost(model, reply),
        }

    return call_llm


def _client(provider: str, api_key: str | None, base_url: str | None) -> ClaudeClient:
    key = os.environ.get("ANTHROPIC_API_KEY", "") if api_key is None else api_key
    url = os.environ.get("ANTHROPIC_BASE_URL", "") if base_url is None else base_url
    client = build_client(provider, key, url if provider == "anthropic" or base_url else "")
    if client is None:
        raise Unavailable(Reason.NO_KEY, "No LLM key is set (ANTHROPIC_API_KEY).")
    return client


def _split_system(messages: Sequence[Mapping[str, Any]]) -> tuple[str, Messages]:
    """Split messages into the system prompt and the other messages."""
    system = "\n\n".join(str(one["content"]) for one in messages if one["role"] == "system")
    return system, [{"role": one["role"], "content": one["content"]} for one in messages if one["role"] != "system"]


def _fence_parts(context: Mapping[str, Any]) -> str:
    """Return the input of the critique. Fence each part in tags that the part itself cannot close."""
    parts = {name: part if isinstance(part, str) else as_text(part) for name, part in context.items()}
    return "\n\n".join(fence(name, part) for name, part in parts.items())


def _cost(model: str, reply: Reply) -> float:
    usage = reply.usage
    return pricing.cost(
        model,
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        tokens_cached=usage.tokens_cached,
        prices=load_prices(),
    )
