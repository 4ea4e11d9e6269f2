"""The WSGI application, and its connections to PostgreSQL.

API requests skip the middleware of pages, which would halve the rate of submissions.
"""

import os
import time
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "handoffaudit.settings")

import django
from django.conf import settings
from django.core.cache import close_caches
from django.core.handlers.base import reset_urlconf
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import DEFAULT_DB_ALIAS, DatabaseError, connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotFound
from django.utils.log import log_response

django.setup(set_prefix=False)

from handoffaudit import database_faults, observability, request_bodies  # noqa: E402 -- needs the apps loaded
from handoffaudit.accounts.keys import KeyIdentity, authenticate, recall  # noqa: E402
from handoffaudit.api.auth import IDENTITY  # noqa: E402
from handoffaudit.api.errors import FAULT, TELEMETRY, ProblemMiddleware  # noqa: E402
from handoffaudit.database_faults import (  # noqa: E402
    POOL_WAITS,
    Cause,
    fault_of,
    limit_for_requests,
    prepare_for_requests,
)
from handoffaudit.handoffs import counts  # noqa: E402
from handoffaudit.handoffs.counts import Total  # noqa: E402
from handoffaudit.handoffs.db import is_open, is_postgresql, release_connection  # noqa: E402
from handoffaudit.observability import ID_HEADER, begin_request  # noqa: E402
from handoffaudit.process import freeze_startup_objects  # noqa: E402
from handoffaudit.validation.telemetry import otlp  # noqa: E402

API_PREFIX = "/api/v1/"
# Addresses to which other programs post by default, each with the address of the API call that answers.
ALIASES = {"/v1/traces": TELEMETRY, "/v1/traces/ingest": "/api/v1/openai-agents/traces"}
API_PAGES = ("/api/v1/docs",)
# Forms are small. Without a limit, anybody could make Django hold large forms in memory, and files of any size on the
# disk.
MAX_FORM_BYTES = 1024 * 1024
# After this time without an answer to a query, another connection checks whether the server still works.
SILENT_SECONDS = 0.8
# A request to cancel a statement may take this long.
CANCEL_SECONDS = 2.0
# This function of PostgreSQL warns that a commit no longer waits for the confirmation of a standby.
UNCONFIRMED = "SyncRepWaitForLSN"


class ApiHandler(WSGIHandler):
    """Django's handler with a single middleware: keys in place of sessions, and no cookies, forms or pages."""

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002 -- Django's signature
        answer: Any = convert_exception_to_response(self._get_response)
        self._problems = ProblemMiddleware(answer)
        self._middleware_chain = convert_exception_to_response(self._problems)
        # The matches of addresses without parameters, such as the address of submissions.
        self._resolved: dict[str, Any] = {}

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        """Answer a request.

        Django's own method also sets the prefix and the table of addresses, which are always the same, looks for old
        connections, which the end of the previous request has closed, and adds cookies.
        """
        request = self.request_class(environ)
        response: Any = self._middleware_chain(request)
        response._resource_closers.append(request.close)  # noqa: SLF001 -- as Django's own method does
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            log_response("%s: %s", response.reason_phrase, request.path, response=response, request=request)
        response._handler_class = self.__class__  # noqa: SLF001
        start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
        return response

    def resolve_request(self, request: HttpRequest) -> Any:
        """Return the match of an address, remembered because Django tries the patterns of all addresses in turn."""
        match = self._resolved.get(request.path_info)
        if match is None:
            match = super().resolve_request(request)
            if not match.kwargs:
                self._resolved[request.path_info] = match
        request.resolver_match = match
        return match

    def _get_response(self, request: HttpRequest) -> HttpResponse:
        """Return the answer of the view. Django's own method also looks for middleware and templates of views."""
        try:
            match = self.resolve_request(request)
            response: HttpResponse = match.func(request, *match.args, **match.kwargs)
            self.check_response(response, match.func)
        except Http404:
            # Django would render the 404 page, which needs the signed-in user.
            return HttpResponseNotFound()
        except Exception as error:
            answered = self._problems.process_exception(request, error)
            if answered is None:
                raise
            return answered
        return response


class _Wait:
    """A wait for the answer to one statement, from the first 0.1 seconds without data."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._late_at = time.monotonic() + settings.MAX_STATEMENT_SECONDS
        self._silent_since = 0.0
        self._is_away = False

    def note(self, *, has_data: bool) -> None:
        """Cancel the statement if it takes too long.

        If the server is away, close the connection and raise `OperationalError`.
        """
        now = time.monotonic()
        if now >= self._late_at:
            self._late_at = now + settings.MAX_STATEMENT_SECONDS
            self._cancel()
        if has_data:
            self._silent_since, self._is_away = 0.0, False
        elif not self._silent_since:
            self._silent_since = now
        elif self._is_away:
            self._connection.close()
            import psycopg  # noqa: PLC0415 -- not needed with SQLite

            raise psycopg.OperationalError("the server does not answer")
        elif self._connection.is_primary and now - self._silent_since >= SILENT_SECONDS:
            fault = database_faults.server.look()
            # The connection closes only after the next wait, because the answer may have arrived during the check.
            self._is_away = fault is not None and fault.cause == Cause.AWAY

    def _cancel(self) -> None:
        import psycopg  # noqa: PLC0415 -- not needed with SQLite

        # The wait goes on in any case: the server answers with an error, or is away.
        with suppress(psycopg.Error):
            self._connection.cancel_safe(timeout=CANCEL_SECONDS)


def _watch(connection: Any, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Forward the messages between psycopg and its generator, and watch a statement that is not answered soon.

    psycopg sends 0 after every 0.1 seconds without data.
    """
    wait = None
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if wait is not None or not ready:
                wait = wait or _Wait(connection)
                wait.note(has_data=bool(ready))
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value


def make_watched_connection(*, to_primary: bool = True) -> type:
    """Return the class of connections that cancel long statements.

    A connection to the primary also closes if the primary stops answering. A statement fails if its commit was not
    confirmed by a standby that has to confirm it.

    A server that hangs keeps its connections open, and the kernel of its machine still acknowledges data, so the
    network shows no error. The connection of a slow query stays open, because the server answers on another connection.

    PostgreSQL itself ends a long statement by `statement_timeout`, with two exceptions: behind a PgBouncer, where no
    setting may stay on a connection, and while a cursor outside of a transaction reads all its rows in advance.
    """
    import psycopg  # noqa: PLC0415 -- not needed with SQLite

    class WatchedConnection(psycopg.Connection[Any]):
        is_primary = to_primary
        is_unconfirmed = False

        @classmethod
        def connect(cls, *args: Any, **more: Any) -> Any:
            opened = super().connect(*args, **more)
            try:
                limit_for_requests(opened)
            except BaseException:
                opened.close()
                raise
            opened.add_notice_handler(opened.note_unconfirmed)
            return opened

        def note_unconfirmed(self, notice: Any) -> None:
            self.is_unconfirmed = self.is_unconfirmed or notice.source_function == UNCONFIRMED

        def wait(self, gen: Any, *args: Any, **more: Any) -> Any:
            answer = super().wait(_watch(self, gen), *args, **more)
            if self.is_unconfirmed:
                self.is_unconfirmed = False
                # Only the primary has stored the rows. If the primary fails, the rows are lost.
                raise psycopg.OperationalError("no standby has confirmed the commit")
            return answer

        def set_autocommit(self, value: bool) -> None:  # noqa: FBT001 -- psycopg's signature
            # Django sets the value each time that it takes a connection from the pool.
            if value != self.autocommit:
                super().set_autocommit(value)

    return WatchedConnection


def limit_waits() -> None:
    """Limit how long this process waits for PostgreSQL; call in processes that answer requests."""
    if not is_postgresql():
        return
    for database in connections.all():
        if options := database.settings_dict["OPTIONS"].get("pool"):
            to_primary = database.alias == DEFAULT_DB_ALIAS
            options |= {"connection_class": make_watched_connection(to_primary=to_primary)}
            options |= POOL_WAITS if to_primary else {}


def replace_closed(connection: BaseDatabaseWrapper, **_: object) -> None:
    """If the server has closed the connection, replace it by another connection of the pool."""
    if connection.vendor == "postgresql" and not is_open(connection.connection):
        connection.close()
        connection.connect()


_api = ApiHandler()
_pages = WSGIHandler()
observability.start_traces("web")
freeze_startup_objects()
limit_waits()
connection_created.connect(replace_closed)
connection_created.connect(prepare_for_requests)
# Django calls these receivers for each request. They have nothing to do here: nothing logs queries, the caches need no
# closing, and all requests use the same URL table.
request_started.disconnect(reset_queries)
request_finished.disconnect(close_caches)
request_finished.disconnect(reset_urlconf)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer a request. The id of the request is in the answer, in problem documents and in each log line."""
    request_id = begin_request(environ)

    def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
        return start_response(status, [*headers, (ID_HEADER, request_id)], *rest)

    with observability.trace_request(environ, start) as traced:
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
        said = f"The form is too large: the limit is {MAX_FORM_BYTES:,} bytes."
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
        counts.add_total(Total.REFUSALS, "too-many-bodies")
        busy, said, retry = "503 Service Unavailable", f"{error}. Try again.", ("Retry-After", "1")
        if path != TELEMETRY:
            return request_bodies.refuse(start_response, busy, said, retry)
        media_type = environ.get("CONTENT_TYPE", "")
        body, media_type = otlp.write_status(503, said, media_type), otlp.answer_type(media_type)
        start_response(busy, [("Content-Type", media_type), ("Content-Length", str(len(body))), retry])
        return [body]


def _sender_of(environ: dict[str, Any], for_api: bool) -> Hashable | None:  # noqa: FBT001 -- private
    """Return the sender for the limit of bodies: the id of a valid key, the IP address for a form, or None."""
    if not for_api:
        return str(environ.get("REMOTE_ADDR", ""))
    key = _key_of(environ)
    if key is None:
        return None
    environ[IDENTITY] = key, time.monotonic()
    return key.key_id


def _key_of(environ: dict[str, Any]) -> KeyIdentity | None:
    kind, _, secret = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    if kind.lower() != "bearer":
        return None
    secret = secret.strip()
    if identity := recall(secret):
        return identity
    try:
        return authenticate(secret)
    except DatabaseError as error:
        environ[FAULT] = fault_of(error)
        return None
    finally:
        release_connection()
