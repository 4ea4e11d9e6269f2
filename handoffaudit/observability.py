"""Logs on standard error with the ids of requests, and traces of the product itself with OpenTelemetry."""

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Final

import orjson
import structlog
import uuid_utils
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from structlog.contextvars import bind_contextvars, clear_contextvars

from handoffaudit.validation.prompts.masking import mask_secrets
from handoffaudit.validation.prompts.secrets import mask_text


def _dumps(event: dict[str, Any], **_: Any) -> str:
    return orjson.dumps(event, default=str).decode()


def without_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the event with masked secrets in its message, its values and its traceback."""
    kept = {key: value for key, value in event.items() if key.startswith("_")}
    rest = {key: _to_json_value(value) for key, value in event.items() if key not in kept}
    return {**mask_secrets(rest), **kept}


def _to_json_value(value: Any) -> Any:
    """Return the value in the types of JSON. Replace a value of any other type with its text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _to_json_value(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_to_json_value(one) for one in value]
        case _:
            return str(value)


def _add_request_id(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if found := _current.get():
        event.setdefault("request_id", found)
    return event


# During an outage, the periodic jobs and the pool of connections fail again every few seconds.
_OUTAGE_EVENT: Final = re.compile(r"(?:could not use the database|: the database can't be reached)$")
_OUTAGE_LOGGERS: Final = frozenset({"psycopg.pool"})
# Numbers and addresses in memory. Lines that differ only in these are equal.
_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|\d+")
_MOST_OUTAGES: Final = 100


class OutageFilter(logging.Filter):
    """Let a warning about an outage through once a minute, with the number of equal warnings that were left out."""

    PAUSE_SECONDS = 60.0

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        # The time until which equal warnings are left out, and the number of warnings left out so far.
        self.seen: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the record."""
        event = record.msg if isinstance(record.msg, dict) else {}
        if record.name not in _OUTAGE_LOGGERS and not _OUTAGE_EVENT.search(str(event.get("event"))):
            return True
        told = f"{event['event']} {event.get('task')} {event.get('error')}" if event else record.getMessage()
        key, now = (record.name, _NUMBERS.sub("", told)), time.monotonic()
        with self._lock:
            until, left_out = self.seen.get(key, (now, 0))
            if now < until:
                self.seen[key] = until, left_out + 1
                return False
            if len(self.seen) >= _MOST_OUTAGES:
                self.seen.clear()
            self.seen[key] = now + self.PAUSE_SECONDS, 0
        if left_out and event:
            event["left_out"] = left_out
        elif left_out:
            record.msg, record.args = f"{told} ({left_out} equal warnings were left out)", None
        return True


def configure_logs(form: str, level: str) -> None:
    """Format the records of structlog and of the standard library in one way. `form` is `text` or `json`."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        _add_request_id,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        without_secrets,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_dumps)
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=False)
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(OutageFilter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # Answers tell senders about their own errors. Only errors of the product belong in the log.
    for name in ("django.request", "django.security.csrf"):
        logging.getLogger(name).setLevel(logging.ERROR)
    # Without Redis, the broker is a folder, which has no host name. Kombu would warn of that at each start.
    logging.getLogger("kombu.connection").setLevel(logging.ERROR)
    # These libraries log a line for each call to the LLM, which the product records itself.
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(max(logging.getLevelName(level), logging.WARNING))


ID_HEADER: Final = "X-Request-ID"
_ID_KEY: Final = "HTTP_X_REQUEST_ID"
# Senders choose their ids. These characters need no escape in a log, a header or a document.
_VALID_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
# One message to a worker can be for several requests. A log line names at most this many of them.
MOST_OF_A_TASK: Final = 10

# The id is not in the context of structlog. For each read, structlog copies the whole context of the thread, which is
# too slow for each submission.
_current: ContextVar[str] = ContextVar("request_id", default="")


def begin_request(environ: dict[str, Any]) -> str:
    """Bind the id of a request to this thread, and return the id.

    The thread keeps the id until its next request, because a streamed body is written after the handler has returned.
    """
    given = environ.get(_ID_KEY, "")
    found = given if _VALID_ID.fullmatch(given) else uuid_utils.uuid4().hex
    _current.set(found)
    return found


def current_id() -> str:
    """Return the id of the request that this thread answers, or an empty text."""
    return _current.get()


def bind_task(name: str, ids: Iterable[object]) -> None:
    """Bind the name of a task, and the ids of the requests that caused the task, to this thread."""
    valid = [one for one in ids if isinstance(one, str) and _VALID_ID.fullmatch(one)][:MOST_OF_A_TASK]
    clear_contextvars()
    _current.set(valid[0] if len(valid) == 1 else "")
    bind_contextvars(task=name, **({"request_ids": valid} if len(valid) > 1 else {}))


def clear_ids() -> None:
    clear_contextvars()
    _current.set("")


log = structlog.get_logger(__name__)

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
UNTRACED: Final = frozenset(("/api/v1/otlp/traces", "/v1/traces", "/healthz", "/readyz", "/metrics"))
MOST_SQL: Final = 1000

Respond = Callable[..., Any]
_tracer: Any = None


def start_traces(role: str) -> bool:
    """Start to send spans if an endpoint is set and the extra `otel` is installed; return whether spans are sent.

    `role` is `web` or `worker`.
    """
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
    connection_created.connect(_trace_queries, dispatch_uid="handoffaudit.observability")
    return True


def trace_request(environ: dict[str, Any], respond: Respond) -> AbstractContextManager[Respond]:
    """Return a context that records the span of a request. The context yields the function that starts the answer."""
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
        # The query string is left out, because it can contain the search terms of people. The path is masked, because
        # a one-time link has its secret in the path.
        "url.path": mask_text(environ.get("PATH_INFO", "")[:MOST_SQL]),
        "handoffaudit.request_id": current_id(),
    }
    with _tracer.start_as_current_span(method, caller, SpanKind.SERVER, attributes) as span:

        def start_response(status: str, *rest: Any) -> Any:
            span.set_attribute("http.response.status_code", int(status[:3]))
            if status.startswith("5"):
                span.set_status(StatusCode.ERROR)
            return respond(status, *rest)

        yield start_response


def begin_task_span(name: str) -> Any:
    """Start the span of a task in this thread, and return the argument for `end_task_span`."""
    if _tracer is None:
        return None
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    context = _tracer.start_as_current_span(
        name.rpartition(".")[2], kind=SpanKind.CONSUMER, attributes={"handoffaudit.request_id": current_id()}
    )
    return context, context.__enter__()


def end_task_span(begun: Any, *, failed: bool) -> None:
    """End the span of a task."""
    if begun is None:
        return
    from opentelemetry.trace import StatusCode  # noqa: PLC0415

    context, span = begun
    if failed:
        span.set_status(StatusCode.ERROR)
    context.__exit__(None, None, None)


def _trace_queries(connection: BaseDatabaseWrapper, **_: object) -> None:
    # Django sends the signal each time that a connection is taken from the pool.
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
