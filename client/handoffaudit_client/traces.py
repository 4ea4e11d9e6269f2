"""The trace of a piece of work, and the parent of each handoff in the trace."""

from __future__ import annotations

import contextlib
import sys
import threading
from contextvars import ContextVar

from handoffaudit_client.identity import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextvars import Token

_current: ContextVar[str] = ContextVar("handoffaudit_trace", default="")

# At most this many traces are remembered, and this many agents of each. The oldest traces are forgotten first.
_MOST_TRACES = 1_000
_MOST_AGENTS = 200


def scope_trace() -> str:
    """Return the trace of the surrounding `with client.trace()`, else ''."""
    return _current.get()


def current_trace() -> str:
    """Return the trace of `scope_trace`, else the current OpenTelemetry trace, else ''."""
    return scope_trace() or _telemetry_trace()


def _telemetry_trace() -> str:
    # Never import OpenTelemetry here: a program that uses it has imported it.
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return ""
    try:
        context = api.get_current_span().get_span_context()
    except Exception:  # noqa: BLE001 (another version of OpenTelemetry must not stop an agent)
        return ""
    return f"{context.trace_id:032x}" if context.is_valid else ""


class TraceScope:
    """Context manager that sets the trace of all handoffs and tool results inside."""

    def __init__(self, trace_id: str) -> None:
        self.id = trace_id or current_trace() or new_id()
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> str:
        self._tokens.append(_current.set(self.id))
        return self.id

    def __exit__(self, *_: object) -> None:
        # A generator, such as a dependency of a web framework, may end in another context than it began in.
        with contextlib.suppress(ValueError):
            _current.reset(self._tokens.pop())

    async def __aenter__(self) -> str:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()


class Parents:
    """The last handoff to each agent of a trace, which is the parent of the next handoff from this agent."""

    def __init__(self) -> None:
        self._traces: dict[str, dict[str, str]] = {}
        self._lock = threading.RLock()

    def parent_of(self, trace: str, source: str) -> str:
        """Return the id of the last handoff of the trace that went to the source; '' if there is none."""
        return self._traces.get(trace, {}).get(source, "")

    def add(self, trace: str, target: str, handoff_id: str) -> None:
        if not trace:
            return
        with self._lock:
            # Move the trace to the end, because those at the beginning are forgotten first.
            agents = self._traces.pop(trace, {})
            if len(agents) >= _MOST_AGENTS and target not in agents:
                del agents[next(iter(agents))]
            self._traces[trace] = agents
            agents[target] = handoff_id
            if len(self._traces) > _MOST_TRACES:
                del self._traces[next(iter(self._traces))]

    def start_in_child(self) -> None:
        """Replace the lock after a fork, because another thread of the parent may have held it."""
        self._lock = threading.RLock()
