"""Every error of the API as a problem document (RFC 9457): one handler for each kind, in one place."""

import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson
import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from handoffaudit import problem_types
from handoffaudit.api import refusing
from handoffaudit.database_faults import Fault, fault_of, page
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review.errors import ReviewError, Stale, WrongInput
from handoffaudit.policy.errors import InvalidPolicy
from handoffaudit.policy.versions import Stale as StalePolicy
from handoffaudit.problem_types import type_of

log = structlog.get_logger(__name__)

NOTE = "The note can't be taken"
CONTENT_TYPE = "application/problem+json"
API_PREFIX = "/api/"


class Problem(Exception):
    """A refused request. `members` are added to the document, `headers` to the response."""

    def __init__(
        self, status: int, title: str, detail: str, *, headers: dict[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers or {}
        self.members = members


def problem(status: int, title: str, detail: str, **members: Any) -> HttpResponse:
    document = {"type": type_of(title), "title": title, "status": status, "detail": detail, **members}
    return HttpResponse(orjson.dumps(document, default=str), status=status, content_type=CONTENT_TYPE)


def install(api: NinjaAPI) -> None:
    """Registers one handler for each kind of error."""
    for kind, handler in _HANDLERS.items():
        api.add_exception_handler(kind, handler)


def _ours(request: HttpRequest, error: Problem) -> HttpResponse:
    response = problem(error.status, error.title, error.detail, **error.members)
    for name, value in error.headers.items():
        response[name] = value
    return response


def _unauthenticated(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    response = problem(
        401,
        "Key needed",
        "Send a key that is in force: Authorization: Bearer ha_…. An administrator makes one under Settings, Keys.",
    )
    response["WWW-Authenticate"] = "Bearer"
    return response


def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = refusing.of_request(request, error.errors)
    return problem(422, "The request can't be read", refusing.said(errors), **refusing.members(errors))


def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    return problem(error.status_code, HTTPStatus(error.status_code).phrase, str(error))


def _not_found(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem(404, "Not found", str(error) or "There is nothing at this address.")


def _bad_filter(request: HttpRequest, error: FilterError) -> HttpResponse:
    message = f"{error.field} is {error.value!r}."
    found = refusing.refused(error.field, error.value, message, refusing.sentence(error.remedy))
    return problem(400, "A filter can't be read", str(error), **refusing.members([found]))


def _review(request: HttpRequest, error: ReviewError) -> HttpResponse:
    if isinstance(error, WrongInput):
        title = NOTE if error.field == "note" else "No reviewer"
        members = refusing.of_field(request, error.field, error.wrong, error.remedy)
        return problem(422, title, error.message, **members)
    members = {"state": error.handoff.state, "version": error.handoff.version} if isinstance(error, Stale) else {}
    return problem(409, "It changed" if isinstance(error, Stale) else "It can't be decided", error.message, **members)


def _invalid_policy(request: HttpRequest, error: InvalidPolicy) -> HttpResponse:
    errors = [refusing.refused(one.field, one.value, one.message, one.remedy, row=one.row) for one in error.errors]
    return problem(422, "The table can't be saved", str(error), **refusing.members(errors))


def _stale_policy(request: HttpRequest, error: StalePolicy) -> HttpResponse:
    return problem(409, "It changed", str(error), version=error.current.version)


_HANDLERS: dict[Any, Any] = {
    Problem: _ours,
    AuthenticationError: _unauthenticated,
    ValidationError: _invalid,
    HttpError: _http,
    Http404: _not_found,
    Handoff.DoesNotExist: _not_found,
    FilterError: _bad_filter,
    ReviewError: _review,
    InvalidPolicy: _invalid_policy,
    StalePolicy: _stale_policy,
}


# These have an answer of Django's own, which is translated.
_DJANGOS = (Http404, PermissionDenied, SuspiciousOperation)


class ProblemMiddleware:
    """What Django itself answers under `/api/` (no such address, wrong method, our own bug) as problem documents."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if (
            response.status_code < 400
            or not request.path_info.startswith(API_PREFIX)
            or response.get("Content-Type") == CONTENT_TYPE
        ):
            return response
        return _translated(request, response)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        fault = fault_of(exception)
        if fault:
            return unavailable(request, fault)
        if isinstance(exception, _DJANGOS) or not request.path_info.startswith(API_PREFIX):
            return None
        return broken(request, exception)


def unavailable(request: HttpRequest, fault: Fault) -> HttpResponse:
    """Answer 503 where the database does not work: a problem document, or a page for people."""
    log.error("the database can't be used", cause=fault.cause.value, path=request.path_info)
    if request.path_info.startswith(API_PREFIX):
        said = f"The database {fault.symptom}. Try again in {fault.retry_after} seconds."
        response = problem(503, "The database can't be used", said, cause=fault.cause.value)
        response["Retry-After"] = str(fault.retry_after)
    else:
        response = page(fault)
    # Django would log the same again, for each request.
    response._has_been_logged = True  # type: ignore[attr-defined]  # noqa: SLF001
    return response


def broken(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Our own bug: an id to find it by in the logs, and nothing of it in the answer."""
    request_id = str(uuid.uuid4())
    log.error("the API failed", request_id=request_id, path=request.path_info, exc_info=exception)
    return problem(
        500,
        "Our mistake",
        f"The request failed through no fault of yours. Tell the operator the request id {request_id}.",
        request_id=request_id,
    )


def _translated(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    details = {
        400: problem_types.explain_unknown_host(request) or HTTPStatus.BAD_REQUEST.phrase,
        404: f"There is nothing at {request.path_info}. All addresses: /api/v1/docs.",
        405: f"{request.method} is not answered here; allowed: {response.get('Allow', '')}.",
        413: f"The body is too large; {settings.MAX_BODY_BYTES:,} bytes are the most.",
    }
    status = response.status_code
    answer = problem(status, HTTPStatus(status).phrase, details.get(status, HTTPStatus(status).phrase))
    if "Allow" in response:
        answer["Allow"] = response["Allow"]
    return answer
