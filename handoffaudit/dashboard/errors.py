"""The error pages. The API answers with problem documents instead (`api/problems.py`)."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from handoffaudit import problem_types
from handoffaudit.dashboard.access import find_member
from handoffaudit.database_faults import fault_of, page


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400 in plain text, because nothing in the request can be trusted."""
    said = problem_types.explain_unknown_host(request) or "This request can't be answered."
    return HttpResponse(f"400 Bad Request\n\n{said}\n", status=400, content_type="text/plain; charset=utf-8")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _refused(request, "403.html", 403, str(exception))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _refused(request, "404.html", 404)


def broken(request: HttpRequest) -> HttpResponse:
    """Answer an error that happened outside of a view."""
    fault = fault_of(sys.exception())
    return page(fault) if fault else render(request, "500.html", status=500)


def _refused(request: HttpRequest, template: str, status: int, reason: str = "") -> HttpResponse:
    # A member keeps the menu to continue from here; for everybody else the tenant does not exist.
    if not hasattr(request, "who") and (who := find_member(request)):
        request.who = who  # type: ignore[attr-defined]
    return render(request, template, {"reason": reason}, status=status)
