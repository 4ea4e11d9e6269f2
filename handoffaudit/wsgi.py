"""The WSGI application. API requests skip the middleware of pages, which would halve the rate of submissions."""

import os
from collections.abc import Callable, Hashable, Iterable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "handoffaudit.settings")

import django
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler
from django.db import DatabaseError
from django.db.backends.signals import connection_created
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotFound

django.setup(set_prefix=False)

from handoffaudit import otel, request_bodies  # noqa: E402 -- needs the apps loaded
from handoffaudit.accounts.keys import KeyIdentity, authenticate  # noqa: E402
from handoffaudit.api.errors import FAULT, TELEMETRY, ProblemMiddleware  # noqa: E402
from handoffaudit.database_faults import fault_of, limit_lock_waits  # noqa: E402
from handoffaudit.handoffs import totals  # noqa: E402
from handoffaudit.handoffs.db import limit_waits, release_connection, replace_closed  # noqa: E402
from handoffaudit.handoffs.totals import Total  # noqa: E402
from handoffaudit.logging import ID_HEADER, begin_request  # noqa: E402
from handoffaudit.process import freeze_startup_objects  # noqa: E402
from handoffaudit.validation.telemetry import otlp  # noqa: E402

API_PREFIX = "/api/v1/"
# Addresses at which programs of others post, with the address of the call that answers them.
ALIASES = {"/v1/traces": TELEMETRY, "/v1/traces/ingest": "/api/v1/openai-agents/traces"}
API_PAGES = ("/api/v1/docs",)
# Forms are small. Without a limit, Django would hold large forms in memory and files of any size on the disk, for
# anybody.
MAX_FORM_BYTES = 1024 * 1024


class ApiHandler(WSGIHandler):
    """Django's handler with a single middleware: keys in place of sessions, and no cookies, forms or pages."""

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002 -- Django's signature
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        answer: Any = convert_exception_to_response(self._get_response)
        problems = ProblemMiddleware(answer)
        self._exception_middleware: list[Any] = [problems.process_exception]
        self._middleware_chain = convert_exception_to_response(problems)
        # The addresses without parameters, such as those of submissions.
        self._resolved: dict[str, Any] = {}

    def resolve_request(self, request: HttpRequest) -> Any:
        """Return the view of an address. Django would match the patterns of all addresses one after another."""
        match = self._resolved.get(request.path_info)
        if match is None:
            match = super().resolve_request(request)
            if not match.kwargs:
                self._resolved[request.path_info] = match
        request.resolver_match = match
        return match

    def _get_response(self, request: HttpRequest) -> HttpResponse:
        try:
            response: HttpResponse = super()._get_response(request)  # type: ignore[misc]
        except Http404:
            # Django would render the 404 page, which needs the signed-in user.
            return HttpResponseNotFound()
        return response


_api = ApiHandler()
_pages = WSGIHandler()
otel.start("web")
freeze_startup_objects()
limit_waits()
connection_created.connect(replace_closed)
connection_created.connect(limit_lock_waits)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request. The id of the request is in the answer, in problem documents and in each log line."""
    request_id = begin_request(environ)

    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, (ID_HEADER, request_id)], *rest)

    with otel.trace_request(environ, start) as traced:
        return _answer(environ, traced)


def _answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    path = environ.get("PATH_INFO", "")
    if path in ALIASES:
        path = environ["PATH_INFO"] = ALIASES[path]
    for_api = path.startswith(API_PREFIX) and not path.startswith(API_PAGES)
    announced = environ.get("CONTENT_LENGTH") or "0"
    if (
        not (for_api or request_bodies.LOG_FORM.match(path))
        and announced.isdecimal()
        and int(announced) > MAX_FORM_BYTES
    ):
        said = f"The form is too large; {MAX_FORM_BYTES:,} bytes are the most."
        return request_bodies.refuse(start_response, "413 Content Too Large", said)
    handler = _api if for_api else _pages
    if announced == "0":
        return handler(environ, start_response)
    sender = _sender_of(environ, for_api)
    if sender is None:
        # The view refuses the request with the reason.
        request_bodies.drop(environ)
        return handler(environ, start_response)
    try:
        # No thread holds a database connection during the read.
        request_bodies.read_ahead(environ, sender, is_form=not for_api)
        with request_bodies.read_by_view(environ, sender, is_form=not for_api):
            return handler(environ, start_response)
    except request_bodies.TooManyBodiesError as error:
        totals.add(Total.REFUSALS, "too-many-bodies")
        busy, said, retry = "503 Service Unavailable", f"{error}. Try again.", ("Retry-After", "1")
        if path != TELEMETRY:
            return request_bodies.refuse(start_response, busy, said, retry)
        media_type = environ.get("CONTENT_TYPE", "")
        body, media_type = otlp.write_status(503, said, media_type), otlp.answer_type(media_type)
        start_response(busy, [("Content-Type", media_type), ("Content-Length", str(len(body))), retry])
        return [body]


def _sender_of(environ: dict[str, Any], for_api: bool) -> Hashable | None:  # noqa: FBT001 -- private
    """Return the sender whose places a body takes: a key, or an address for a form. None without a valid key."""
    if not for_api:
        return str(environ.get("REMOTE_ADDR", ""))
    key = _key_of(environ)
    return key.key_id if key else None


def _key_of(environ: dict[str, Any]) -> KeyIdentity | None:
    kind, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if kind.lower() != "bearer":
        return None
    try:
        return authenticate(secret.strip())
    except DatabaseError as error:
        environ[FAULT] = fault_of(error)
        return None
    finally:
        release_connection()
