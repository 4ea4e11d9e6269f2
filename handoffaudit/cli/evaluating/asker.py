"""Who asks: the user's own key, from the environment, and the model that is measured."""

import os
from collections.abc import Mapping
from typing import Final

from handoffaudit.cli.stop import Stop
from handoffaudit.llm.calls import SECONDS, TRIES, Caller
from handoffaudit.llm.claude import CONNECT_SECONDS, PROVIDERS
from handoffaudit.llm.service import caller_from, client_from

# as in the settings, which load Django
FAST: Final = "claude-haiku-5-5"


def caller_here(model: str | None, environment: Mapping[str, str] = os.environ) -> Caller:
    """Raises `Stop` where there is no key, or a setting makes no sense."""
    provider = environment.get("HANDOFFAUDIT_MODEL_PROVIDER") or PROVIDERS[0]
    if provider not in PROVIDERS:
        raise Stop(f"HANDOFFAUDIT_MODEL_PROVIDER is {provider!r}: set it to one of {', '.join(PROVIDERS)}.")
    client = client_from(
        provider,
        environment.get("ANTHROPIC_API_KEY", ""),
        environment.get("ANTHROPIC_BASE_URL", ""),
        connect_seconds=_number("HANDOFFAUDIT_MODEL_CONNECT_SECONDS", CONNECT_SECONDS, environment),
    )
    if client is None:
        raise Stop("--with-model needs your key: set ANTHROPIC_API_KEY. Without --with-model no model is asked.")
    name = model or environment.get("HANDOFFAUDIT_MODEL_FAST") or FAST
    try:
        return caller_from(
            client,
            fast=name,
            careful=name,
            seconds=_number("HANDOFFAUDIT_MODEL_SECONDS", SECONDS, environment),
            tries=int(_number("HANDOFFAUDIT_MODEL_TRIES", TRIES, environment)),
        )
    except ValueError as error:
        raise Stop(str(error)) from error


def _number(name: str, default: float, environment: Mapping[str, str]) -> float:
    given = environment.get(name) or default
    try:
        value = float(given)
    except ValueError:
        value = 0
    if not 1 <= value < float("inf"):
        raise Stop(f"{name} is {given!r}: set it to a whole number of 1 or more.")
    return value
