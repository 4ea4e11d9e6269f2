"""Problem documents (RFC 9457) for every error of the API, with one form for refused values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import orjson
import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from handoffaudit import problem_types
from handoffaudit.accounts import Refused
from handoffaudit.database_faults import Fault, fault_of, page
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import counts
from handoffaudit.handoffs.counts import Total
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review.base import ReviewError, Stale, WrongInput
from handoffaudit.observability import current_id
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import Stale as StalePolicy
from handoffaudit.problem_types import type_of
from handoffaudit.validation.telemetry import otlp
from handoffaudit.validation.text import show

MOST: Final = 100

_LONGEST: Final = 200

# Messages by pydantic error type: the problem, then the fix. `{value}` is replaced with the value that was sent.
_MESSAGES: Final[Mapping[str, tuple[str, str]]] = {
    "missing": ("It is missing.", "Add it."),
    "extra_forbidden": ("There is no such field.", "Leave it out, or correct its name."),
    "string_type": ("{value} is not text.", "Send a text."),
    "string_unicode": ("It contains characters that can't be stored.", "Send valid UTF-8."),
    "string_too_long": ("It is too long.", "Send at most {max_length} characters."),
    "string_too_short": ("It is too short.", "Send {min_length} characters or more."),
    "greater_than_equal": ("{value} is too small.", "Send {ge} or more."),
    "less_than_equal": ("{value} is too large.", "Send {le} or less."),
    "greater_than": ("{value} is too small.", "Send more than {gt}."),
    "less_than": ("{value} is too large.", "Send less than {lt}."),
    "enum": ("{value} is not one of the choices.", "Send {expected}."),
    "literal_error": ("{value} is not one of the choices.", "Send {expected}."),
    "list_type": ("{value} is not a list.", "Send a list."),
    "too_long": ("It has too many entries.", "Send at most {max_length}."),
}

# Expected values by the first word of a pydantic error type, for types that are not in `_MESSAGES`.
_KINDS: Final[Mapping[str, str]] = {
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "dict": "object",
    "model": "object",
    "uuid": "id",
    "datetime": "date and time, such as 2026-02-15T00:15:00Z",
    "date": "date, such as 2026-02-15",
}


def describe_value(field: str, value: Any, message: str, remedy: str, **more: Any) -> dict[str, Any]:
    """Return the description of a refused value, with the value cut to size."""
    return {**more, "field": field, "value": _cut(value), "message": message, "remedy": remedy}


def error_members(errors: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the members of a problem document: `errors`, and for a single error also its field, value and remedy."""
    if len(errors) != 1:
        return {"errors": errors}
    return {name: errors[0][name] for name in ("field", "value", "remedy")} | {"errors": errors}


def join_messages(errors: Iterable[Mapping[str, Any]]) -> str:
    """Join the messages and remedies of all errors into the text for `detail`."""
    return "; ".join(f"{one['field']}: {one['message']} {one['remedy']}".rstrip() for one in errors)


def field_members(request: HttpRequest, field: str, message: str, remedy: str) -> dict[str, Any]:
    """Return the members of a problem document for a refused field of the body."""
    return error_members([describe_value(field, _inside(_body(request), (field,)), message, remedy)])


def change_members(request: HttpRequest, error: Refused) -> dict[str, Any]:
    """Return the members of a problem document for a refused change; no members if no field is at fault."""
    if not error.field:
        return {}
    return field_members(request, error.field, f"{error.wrong}.", sentence(error.remedy))


def sentence(text: str) -> str:
    """Capitalize a text that follows a colon elsewhere, so that the text can be a sentence of its own."""
    return text[:1].upper() + text[1:]


def request_errors(request: HttpRequest, found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Describe the first `MOST` errors that ninja or pydantic found in a request."""
    body = _body(request) if any(one["loc"][0] == "body" for one in found) else None
    return [_request_error(request, body, one) for one in found[:MOST]]


def _request_error(request: HttpRequest, body: Any, one: Mapping[str, Any]) -> dict[str, Any]:
    source, *place = one["loc"]
    # The location of a body error starts with the name of the view's parameter.
    inside = place[1:] if source == "body" else place
    field = ".".join(str(part) for part in inside) or str(source)
    if source == "body":
        value = _inside(body, inside)
    else:
        given = request.GET if source == "query" else getattr(request.resolver_match, "kwargs", {})
        value = given.get(field)
    message, remedy = _words(str(one["type"]), value, one)
    return describe_value(field, value, message, remedy)


def _words(kind: str, value: Any, one: Mapping[str, Any]) -> tuple[str, str]:
    message, remedy = _MESSAGES.get(kind, ("", ""))
    if not message:
        wanted = _KINDS.get(kind.partition("_")[0])
        if wanted is None:
            return f"{one['msg']}.", "See the API reference for the expected value."
        article = "" if wanted.startswith("true") else "an " if wanted[0] in "aeio" else "a "
        message, remedy = f"{{value}} is not {article}{wanted.partition(',')[0]}.", f"Send {article}{wanted}."
    facts = {name: str(fact).replace("'", "") for name, fact in one.get("ctx", {}).items()}
    return message.format(**facts, value=show(value)), remedy.format(**facts)


def _body(request: HttpRequest) -> Any:
    try:
        return orjson.loads(request.body)
    except ValueError:
        return None


def _inside(value: Any, place: Sequence[str | int]) -> Any:
    for part in place:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _cut(value: Any) -> Any:
    if isinstance(value, dict | list):
        return show(value)
    return value if not isinstance(value, str) or len(value) <= _LONGEST else f"{value[:_LONGEST]}…"


log = structlog.get_logger(__name__)

NOTE = "The note can't be taken"
COMMENT = "The comment can't be taken"

CONTENT_TYPE = "application/problem+json"

API_PREFIX = "/api/"

# Exporters of OpenTelemetry post to `/v1/traces`. `handoffaudit.wsgi` passes such requests to this address.
TELEMETRY = "/api/v1/otlp/traces"

# The calls that submit handoffs. The metrics count the refusals of these calls by the type of the problem.
INGEST: Final = frozenset(
    (
        *("/api/v1/handoffs", "/api/v1/handoffs/batch", TELEMETRY),
        *("/api/v1/openai-agents/traces", "/api/v1/hooks/post-tool-use"),
    )
)


class Problem(Exception):
    """A refused request. `members` are added to the problem document, `headers` to the response."""

    def __init__(
        self, status: int, title: str, detail: str, *, headers: dict[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.headers = headers or {}
        self.members = members


def problem_response(status: int, title: str, detail: str, **members: Any) -> HttpResponse:
    document = {"type": type_of(title), "title": title, "status": status, "detail": detail, **members}
    if request_id := current_id():
        document["request_id"] = request_id
    return HttpResponse(orjson.dumps(document, default=str), status=status, content_type=CONTENT_TYPE)


def install_handlers(api: NinjaAPI) -> None:
    """Register a handler for each kind of error."""
    for kind, handler in _HANDLERS.items():
        api.add_exception_handler(kind, handler)


def _answer_problem(request: HttpRequest, error: Problem) -> HttpResponse:
    response = problem_response(error.status, error.title, error.detail, **error.members)
    for name, value in error.headers.items():
        response[name] = value
    return response


def _answer_unauthenticated(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    response = problem_response(
        401,
        "Key needed",
        "Send a valid key: Authorization: Bearer ha_…. An administrator creates keys under Settings, API keys.",
    )
    response["WWW-Authenticate"] = "Bearer"
    return response


def _answer_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    errors = request_errors(request, error.errors)
    return problem_response(422, "The request can't be read", join_messages(errors), **error_members(errors))


def _answer_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    detail, cause = str(error), error.__cause__
    if isinstance(cause, orjson.JSONDecodeError):
        detail = f"The body can't be read as JSON: line {cause.lineno}, column {cause.colno}, {cause.msg}."
    return problem_response(error.status_code, HTTPStatus(error.status_code).phrase, detail)


def _answer_not_found(request: HttpRequest, error: Exception) -> HttpResponse:
    return problem_response(404, "Not found", str(error) or "There is nothing at this address.")


def _answer_bad_filter(request: HttpRequest, error: FilterError) -> HttpResponse:
    message = f"{error.field} is {error.value!r}."
    found = describe_value(error.field, error.value, message, sentence(error.remedy))
    return problem_response(400, "A filter can't be read", str(error), **error_members([found]))


def _answer_review_error(request: HttpRequest, error: ReviewError) -> HttpResponse:
    if isinstance(error, WrongInput):
        title = {"note": NOTE, "text": COMMENT}.get(error.field, "No reviewer")
        members = field_members(request, error.field, error.wrong, error.remedy)
        return problem_response(422, title, error.message, **members)
    members = {"state": error.handoff.state, "version": error.handoff.version} if isinstance(error, Stale) else {}
    return problem_response(
        409, "Version conflict" if isinstance(error, Stale) else "It can't be decided", error.message, **members
    )


def _answer_invalid_policy(request: HttpRequest, error: InvalidPolicy) -> HttpResponse:
    errors = [describe_value(one.field, one.value, one.message, one.remedy, row=one.row) for one in error.errors]
    return problem_response(422, "The policy is not valid", str(error), **error_members(errors))


def _answer_stale_policy(request: HttpRequest, error: StalePolicy) -> HttpResponse:
    return problem_response(409, "Version conflict", str(error), version=error.current.version)


_HANDLERS: dict[Any, Any] = {
    Problem: _answer_problem,
    AuthenticationError: _answer_unauthenticated,
    ValidationError: _answer_invalid,
    HttpError: _answer_http_error,
    Http404: _answer_not_found,
    Handoff.DoesNotExist: _answer_not_found,
    FilterError: _answer_bad_filter,
    ReviewError: _answer_review_error,
    InvalidPolicy: _answer_invalid_policy,
    StalePolicy: _answer_stale_policy,
}

# Django answers these exceptions itself, and the middleware translates the answer.
_DJANGOS = (Http404, PermissionDenied, SuspiciousOperation)


# The member of `request.META` with the fault of the database that was found before the request was handled.
FAULT = "handoffaudit.fault"


class ProblemMiddleware:
    """Middleware that turns Django's own error responses under `/api/` into problem documents.

    Examples are an unknown address, a wrong method, and a bug of our own. The middleware also answers 503 for pages and
    calls if the database does not work, counts refused submissions, and gives exporters errors in their protocol.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._answer(request)
        if response.status_code >= 400 and request.method == "POST" and request.path_info in INGEST:
            _count_refusal(response)
        if response.status_code >= 400 and request.path_info == TELEMETRY:
            return _as_rpc_status(request, response)
        return response

    def _answer(self, request: HttpRequest) -> HttpResponse:
        if found := request.META.get(FAULT):
            # The view would wait for the database again.
            return answer_unavailable(request, found)
        response = self.get_response(request)
        if (
            response.status_code < 400
            or not request.path_info.startswith(API_PREFIX)
            or response.get("Content-Type") == CONTENT_TYPE
        ):
            return response
        return _translate(request, response)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        fault = fault_of(exception)
        if fault:
            return answer_unavailable(request, fault)
        if isinstance(exception, _DJANGOS) or not request.path_info.startswith(API_PREFIX):
            return None
        return answer_broken(request, exception)


def _count_refusal(response: HttpResponse) -> None:
    """Count a refused submission.

    A submission that cannot be read is stored, so it does not count as refused. Its problem document has a `state`.
    """
    if response.get("Content-Type") == CONTENT_TYPE:
        document = orjson.loads(response.content)
        if not (response.status_code == HTTPStatus.UNPROCESSABLE_ENTITY and "state" in document):
            counts.add_total(Total.REFUSALS, problem_types.name_of(document["title"], response.status_code))


def _as_rpc_status(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Return a problem as a `google.rpc.Status` of the OpenTelemetry protocol, in the content type of the request."""
    detail = orjson.loads(response.content)["detail"]
    media_type = str(request.content_type)
    response.content = otlp.write_status(response.status_code, detail, media_type)
    response["Content-Type"] = otlp.answer_type(media_type)
    return response


def answer_unavailable(request: HttpRequest, fault: Fault) -> HttpResponse:
    """Answer 503 if the database does not work: a problem document, or a page for people."""
    log.error("the database can't be used", cause=fault.cause.value, path=request.path_info)
    if request.path_info.startswith(API_PREFIX):
        said = f"The database {fault.symptom}. Try again in {fault.retry_after} seconds."
        response = problem_response(503, "The database can't be used", said, cause=fault.cause.value)
        response["Retry-After"] = str(fault.retry_after)
    else:
        response = page(fault)
    # Without this mark, Django logs the same error again for each request.
    response._has_been_logged = True  # type: ignore[attr-defined]  # noqa: SLF001
    return response


def answer_broken(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 500 for a bug of our own, without details but with an id that finds the error in the logs."""
    log.error("the API failed", path=request.path_info, exc_info=exception)
    said = f"The request failed through no fault of yours. Give the operator the request id {current_id()}."
    return problem_response(500, "Our mistake", said)


def _translate(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    details = {
        400: problem_types.explain_unknown_host(request) or HTTPStatus.BAD_REQUEST.phrase,
        404: f"There is nothing at {request.path_info}. All addresses: /api/v1/docs.",
        405: f"{request.method} is not allowed here; allowed: {response.get('Allow', '')}.",
        413: f"The body is too large; the maximum is {settings.MAX_BODY_BYTES:,} bytes.",
    }
    status = response.status_code
    answer = problem_response(status, HTTPStatus(status).phrase, details.get(status, HTTPStatus(status).phrase))
    if "Allow" in response:
        answer["Allow"] = response["Allow"]
    return answer
