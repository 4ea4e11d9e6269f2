"""Plug-in for A2A: `HandoffInterceptor` for clients, `GatedExecutor` and `HandoffMiddleware` for servers.

    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore
    from handoffaudit_client.a2a import GatedExecutor
    from starlette.applications import Starlette

    executor = GatedExecutor(WriterExecutor(), target="writer")
    handler = DefaultRequestHandler(executor, InMemoryTaskStore(), card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])

`docs/connect-a2a.md` names the settings and limits of the plug-in.
"""

from __future__ import annotations

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.a2a.executor import GatedExecutor
    from handoffaudit_client.a2a.interceptor import HandoffInterceptor
    from handoffaudit_client.a2a.middleware import HandoffMiddleware

__all__ = ["GatedExecutor", "HandoffInterceptor", "HandoffMiddleware"]

__getattr__ = lazy(
    __name__, {"GatedExecutor": "executor", "HandoffInterceptor": "interceptor", "HandoffMiddleware": "middleware"}
)
