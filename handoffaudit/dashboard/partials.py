"""Whole pages, and the parts of them that htmx asks for."""

from collections.abc import Collection, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers


def is_htmx(request: HttpRequest) -> bool:
    """Whether a part may be answered: htmx asks for whole pages too, to restore its history."""
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


def target_of(request: HttpRequest) -> str:
    """The id of the element that htmx will put the answer into; empty for a plain request."""
    return request.headers.get("HX-Target", "") if is_htmx(request) else ""


def render_page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    partials: Collection[str] = (),
    status: int = 200,
) -> HttpResponse:
    """The page, or the partial of its template that bears the name of the element asked for.

    `partials` names those that may be asked for alone.
    """
    target = target_of(request)
    name = f"{template}#{target}" if target in partials else template
    response = render(request, name, dict(context), status=status)
    # On both answers: one address, two bodies.
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response
