"""Plug-in for A2A: `HandoffInterceptor` for clients, `GatedExecutor` and `HandoffMiddleware` for servers.

`docs/connect-a2a.md` has examples, settings and limits.
"""

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
