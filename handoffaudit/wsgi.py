"""The WSGI application. The API passes none of the middleware that pages need: it halves the rate of a submission."""

import os
from collections.abc import Callable, Iterable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "handoffaudit.settings")

import django
from django.core.handlers.exception import convert_exception_to_response
from django.core.handlers.wsgi import WSGIHandler
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotFound

django.setup(set_prefix=False)

from handoffaudit import bodies  # noqa: E402 -- needs the apps loaded
from handoffaudit.api.problems import ProblemMiddleware  # noqa: E402
from handoffaudit.memory import calm  # noqa: E402

API_PREFIX = "/api/v1/"
API_PAGES = ("/api/v1/docs",)
# Forms are small. Django would hold a batch of a form in memory, and files of any size on the disk, for anybody.
MAX_FORM_BYTES = 1024 * 1024


class ApiHandler(WSGIHandler):
    """Django's handler with one middleware: keys instead of sessions, no cookies, no forms, no pages."""

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: FBT001, FBT002 -- Django's signature
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        answer: Any = convert_exception_to_response(self._get_response)
        problems = ProblemMiddleware(answer)
        self._exception_middleware: list[Any] = [problems.process_exception]
        self._middleware_chain = convert_exception_to_response(problems)

    def _get_response(self, request: HttpRequest) -> HttpResponse:
        try:
            response: HttpResponse = super()._get_response(request)  # type: ignore[misc]
        except Http404:
            # Django would render the page for it, which needs who is signed in.
            return HttpResponseNotFound()
        return response


_api = ApiHandler()
_pages = WSGIHandler()
calm()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    path = environ.get("PATH_INFO", "")
    for_api = path.startswith(API_PREFIX) and not path.startswith(API_PAGES)
    announced = environ.get("CONTENT_LENGTH") or "0"
    if not (for_api or bodies.LOG_FORM.match(path)) and announced.isdecimal() and int(announced) > MAX_FORM_BYTES:
        said = f"The form is too large; {MAX_FORM_BYTES:,} bytes are the most."
        return bodies.refuse(start_response, "413 Content Too Large", said)
    if not bodies.read_ahead(environ):
        said = "Too many requests are sending their bodies slowly. Try again in a second."
        return bodies.refuse(start_response, "503 Service Unavailable", said, ("Retry-After", "1"))
    return (_api if for_api else _pages)(environ, start_response)
