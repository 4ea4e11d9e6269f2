"""Rendering of whole pages, and of the parts that htmx requests."""

from collections.abc import Collection, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers


def is_htmx(request: HttpRequest) -> bool:
    """Return whether the response may be a part of a page; htmx requests whole pages to restore its history."""
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


def target_of(request: HttpRequest) -> str:
    """Return the id of the element that htmx will replace; an empty string for a plain request."""
    return request.headers.get("HX-Target", "") if is_htmx(request) else ""


def render_page(
    request: HttpRequest,
    template: str,
    context: Mapping[str, Any],
    *,
    partials: Collection[str] = (),
    status: int = 200,
) -> HttpResponse:
    """Render the page, or the partial of its template that is named like the requested element.

    `partials` names the partials that a request may ask for alone.
    """
    target = target_of(request)
    name = f"{template}#{target}" if target in partials else template
    response = render(request, name, dict(context), status=status)
    # Both responses need the header, because one address has two bodies.
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response
