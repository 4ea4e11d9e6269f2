"""The list of handoffs as a file: what the filters show, and nothing else."""

import threading
from collections.abc import Iterator
from typing import Self

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import path, reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who, page_for
from handoffaudit.dashboard.partials import render_page
from handoffaudit.dashboard.saved.tabs import joined
from handoffaudit.handoffs import exporting
from handoffaudit.handoffs.exporting import Form
from handoffaudit.handoffs.filters import BadFilter, Filters

# A file keeps one of the server's threads busy until whoever reads it has it all.
MOST_AT_ONCE = 2
COUNTED = 10_000
LONGEST_WORDS = 80

_free = threading.BoundedSemaphore(MOST_AT_ONCE)


class Parts:
    """The parts of a file. Its place among those at once is given back when it is done, or closed before its end."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._holds = True

    @classmethod
    def begun(cls, parts: Iterator[bytes]) -> Self | None:
        """None where as many are under way as may be."""
        return cls(parts) if _free.acquire(blocking=False) else None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._parts)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._holds:
            self._holds = False
            _free.release()

    # Nobody closes the parts of an answer that was never sent.
    __del__ = close


@page_for(Role.VIEWER)
@require_safe
def export(request: HttpRequest, who: Who) -> HttpResponseBase:
    try:
        filters = Filters.from_query(request.GET)
        form = _form(request.GET.get("format", ""))
    except BadFilter as bad:
        return render_page(request, "dashboard/handoffs/page.html", {"bad": bad}, status=400)
    query = filters.to_query()
    if request.method == "HEAD":
        return HttpResponse(content_type=exporting.CONTENT_TYPES[form])
    parts = Parts.begun(exporting.parts(who.tenant, filters, form))
    if parts is None:
        messages.error(request, f"{MOST_AT_ONCE} exports are being sent already. Try again when one of them is done.")
        return HttpResponseRedirect(joined(reverse("dashboard:handoffs", args=[who.tenant.slug]), query))
    answer = StreamingHttpResponse(parts, content_type=exporting.CONTENT_TYPES[form])
    answer["Content-Disposition"] = f'attachment; filename="{_name(who, query, form)}"'
    return answer


@page_for(Role.VIEWER)
@require_safe
def count(request: HttpRequest, who: Who) -> HttpResponse:
    """How many the file would hold, for the menu that offers it."""
    try:
        filters = Filters.from_query(request.GET)
    except BadFilter as bad:
        return render_page(request, "dashboard/handoffs/bad.html", {"bad": bad}, status=400)
    number = exporting.count(who.tenant, filters, COUNTED + 1)
    return render_page(
        request, "dashboard/handoffs/export_count.html", {"number": min(number, COUNTED), "more": number > COUNTED}
    )


def _form(asked: str) -> Form:
    try:
        return Form(asked)
    except ValueError:
        raise BadFilter("format", asked[:40], f"use {' or '.join(Form)}.") from None


def _name(who: Who, query: str, form: Form) -> str:
    """Says what is in the file: `acme-handoffs-state-held-2026-02-15.csv`."""
    words = slugify(query.replace("&", "-").replace("=", "-").replace(".", "-"))[:LONGEST_WORDS].strip("-")
    parts = (who.tenant.slug, "handoffs", words, f"{timezone.now():%Y-%m-%d}")
    return f"{'-'.join(part for part in parts if part)}.{form}"


urlpatterns = [
    path("handoffs/export/", export, name="handoffs_export"),
    path("handoffs/count/", count, name="handoffs_count"),
]
