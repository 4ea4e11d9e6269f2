"""Plug-in for A2A: `HandoffInterceptor` for clients, `GatedExecutor` and `HandoffMiddleware` for servers.

    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore
    from handoffaudit_client.a2a import GatedExecutor
    from starlette.applications import Starlette

    executor = GatedExecutor(WriterExecutor(), target="writer")
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])

The address and the key come from HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY, unless a `Client` is given.

What is captured: each message to an agent. The source is the name that is given, on a server the authenticated user,
else `from` in the metadata of the message. The data are the parts of the message. The trace is the `contextId`.

What the gate can do: `GatedExecutor` answers a held handoff with `TASK_STATE_INPUT_REQUIRED` (`input-required` in 0.3)
until a person has decided, and then goes on in the same task; a rejected one is rejected with the reason.
`HandoffInterceptor` stops a message before it is sent. What it can't do: `HandoffMiddleware` only observes; what an
agent answers is not judged.

Importing this package loads no framework before one of its names is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.a2a.executor import GatedExecutor
    from handoffaudit_client.a2a.interceptor import HandoffInterceptor
    from handoffaudit_client.a2a.middleware import HandoffMiddleware

_HOMES = {"GatedExecutor": "executor", "HandoffInterceptor": "interceptor", "HandoffMiddleware": "middleware"}

__all__ = ["GatedExecutor", "HandoffInterceptor", "HandoffMiddleware"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
