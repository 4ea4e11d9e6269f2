"""Calls to a language model: the SDK, its failures, and how often it is tried.

The names below are for those who use the validators as a library, and are loaded when they are first asked for.
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
