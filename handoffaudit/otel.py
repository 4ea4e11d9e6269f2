"""Traces of the product itself with OpenTelemetry, as spans of requests, tasks and their database queries.

The spans are off unless an endpoint is set. A span of a query exists only below the span of a request or task, and
requests that bring telemetry have no span. So a product that sends its traces to itself makes no new span by receiving
them, and nothing loops.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import structlog
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from handoffaudit.logging import current_id

log = structlog.get_logger(__name__)

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
UNTRACED: Final = frozenset(("/api/v1/otlp/traces", "/v1/traces", "/healthz", "/readyz", "/metrics"))
MOST_SQL: Final = 1000

Respond = Callable[..., Any]
_tracer: Any = None


def start(role: str) -> bool:
    """Start to send spans if an endpoint is set and the extra `otel` is installed. `role` is `web` or `worker`."""
    global _tracer  # noqa: PLW0603 -- one for the process
    if _tracer is not None or not any(os.environ.get(name, "").strip() for name in ENDPOINTS):
        return _tracer is not None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        log.warning(
            "no traces are sent: install handoffaudit[otel]", set=[name for name in ENDPOINTS if name in os.environ]
        )
        return False
    named = os.environ.get("OTEL_SERVICE_NAME", "").strip() or f"handoffaudit-{role}"
    provider = TracerProvider(resource=Resource.create({"service.name": named}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _tracer = provider.get_tracer("handoffaudit")
    connection_created.connect(_trace_queries, dispatch_uid="handoffaudit.otel")
    return True


def trace_request(environ: dict[str, Any], respond: Respond) -> AbstractContextManager[Respond]:
    """Return a context that is the span of a request, and yields the function that starts its answer."""
    if _tracer is None or environ.get("PATH_INFO", "") in UNTRACED:
        return nullcontext(respond)
    return _span_of_request(environ, respond)


@contextmanager
def _span_of_request(environ: dict[str, Any], respond: Respond) -> Iterator[Respond]:
    from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    caller = TraceContextTextMapPropagator().extract({"traceparent": environ.get("HTTP_TRACEPARENT", "")})
    method = environ.get("REQUEST_METHOD", "")
    attributes = {
        "http.request.method": method,
        # The query can contain what people search for.
        "url.path": environ.get("PATH_INFO", "")[:MOST_SQL],
        "handoffaudit.request_id": current_id(),
    }
    with _tracer.start_as_current_span(method, caller, SpanKind.SERVER, attributes) as span:

        def start_response(status: str, *rest: Any) -> Any:
            span.set_attribute("http.response.status_code", int(status[:3]))
            if status.startswith("5"):
                span.set_status(StatusCode.ERROR)
            return respond(status, *rest)

        yield start_response


def begin_task(name: str) -> Any:
    """Start the span of a task in this thread, and return what `end_task` needs."""
    if _tracer is None:
        return None
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    context = _tracer.start_as_current_span(
        name.rpartition(".")[2], kind=SpanKind.CONSUMER, attributes={"handoffaudit.request_id": current_id()}
    )
    return context, context.__enter__()


def end_task(begun: Any, *, failed: bool) -> None:
    """End the span of a task."""
    if begun is None:
        return
    from opentelemetry.trace import StatusCode  # noqa: PLC0415

    context, span = begun
    if failed:
        span.set_status(StatusCode.ERROR)
    context.__exit__(None, None, None)


def _trace_queries(connection: BaseDatabaseWrapper, **_: object) -> None:
    # A pooled connection gets here each time it is taken from the pool.
    if _trace_query not in connection.execute_wrappers:
        connection.execute_wrappers.append(_trace_query)


def _trace_query(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:  # noqa: FBT001 -- Django's signature
    from opentelemetry.trace import SpanKind, get_current_span  # noqa: PLC0415

    if not get_current_span().is_recording():
        return execute(sql, params, many, context)
    # The values of the parameters are not sent.
    attributes = {"db.system.name": context["connection"].vendor, "db.query.text": str(sql)[:MOST_SQL]}
    name = str(sql).split(None, 1)[0] if sql else "query"
    with _tracer.start_as_current_span(name, kind=SpanKind.CLIENT, attributes=attributes):
        return execute(sql, params, many, context)
