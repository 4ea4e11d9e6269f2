"""Calls to an LLM: the SDK, its failures, retries, and the circuit breaker.

Users of the validators as a library import the names in `__all__`. Each name is loaded on first access.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handoffaudit.llm.service import ClaudeService, claude_critic

__all__ = ["ClaudeService", "claude_critic"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("handoffaudit.llm.service"), name)
