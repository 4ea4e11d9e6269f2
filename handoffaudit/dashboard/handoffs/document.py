"""The document of a handoff: as a tree, as raw text, and its search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, is_htmx, require_role
from handoffaudit.dashboard.handoffs import sections
from handoffaudit.dashboard.handoffs.document_tree import Bounds, PartNotFoundError, is_text, place_of, text_piece, tree
from handoffaudit.dashboard.handoffs.sections import ShownDocument, choose_document
from handoffaudit.dashboard.handoffs.verdict_findings import Finding, batch, parts_of, spots_of
from handoffaudit.dashboard.safe_text import excerpt, readable, weight
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff, HandoffBody
from handoffaudit.validation.paths import Location, PathError, dotted_path, parse_path, pointer
from handoffaudit.validation.text import lower_in_place
from handoffaudit.validation.value_search import ValueSearch, forms_of

PART = 20_000

MOST_LINES = 400

_MOST_WEIGHT = 60_000

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class RawPart:
    """A part of the raw text: lines that begin at the character `start`.

    `number` is the line number of the first line, and `is_cut` is true if that line began in the part
    before. `following` is the start of the next part (0: there is none). `before` is the start for the link back:
    `PART` characters earlier, but at least 0 (-1: this part is the first).
    """

    lines: tuple[str, ...]
    number: int
    start: int
    following: int
    before: int
    length: int
    is_cut: bool

    @property
    def is_whole(self) -> bool:
        return not self.start and not self.following


def raw_part(original: bytes, start: int = 0) -> RawPart:
    """Return the part of the document that begins at the character `start`, with U+FFFD for invalid UTF-8."""
    text = original.removeprefix(_BOM).decode(errors="replace")
    start = min(start, len(text))
    piece = _piece(text, start)
    end = start + len(piece)
    lines = piece.removesuffix("\n").split("\n")
    return RawPart(
        lines=tuple(map(readable, lines)),
        number=text.count("\n", 0, start) + 1,
        start=start,
        following=end if end < len(text) else 0,
        before=max(start - PART, 0) if start else -1,
        length=len(text),
        is_cut=start > 0 and text[start - 1] != "\n",
    )


def _piece(text: str, start: int) -> str:
    size = PART
    while weight(readable(text[start : start + size])) > _MOST_WEIGHT:
        size //= 2
    piece = text[start : start + size]
    lines = piece.split("\n")
    if len(lines) > MOST_LINES:
        return "\n".join(lines[:MOST_LINES]) + "\n"
    last = piece.rfind("\n") + 1
    # The part ends at the end of a line, unless that would leave out more than half of the part.
    return piece[:last] if start + size < len(text) and last > size // 2 else piece


MOST_HITS = 50

MOST_WANTED = 200

# A longer pointer does not fit into an address; `_MOST_POINTERS` bounds all pointers of a page together.
MOST_POINTER = 4000

_MOST_POINTERS = 20_000

_AROUND = 60

_LONGEST_PATH = 160


@dataclass(frozen=True, slots=True)
class Hit:
    """One search result: a place in the document, with the words around the match.

    `is_key` is true if the name of the field or the path of the place matched. `pointer` is None if the pointer is too
    long for an address.
    """

    pointer: str | None
    path: str
    before: str
    found: str
    after: str
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """The results of a search; `has_more` is true if more places match than are listed."""

    wanted: str
    items: tuple[Hit, ...]
    has_more: bool = False


def look_up(value: Any, wanted: str) -> Hits:
    """Search the document for `wanted`, ignoring case, and return the places in document order.

    If `wanted` is itself a path (`data.items[3]`) or a JSON Pointer (`/data/items/3`), its place comes first.
    """
    wanted = wanted.strip()[:MOST_WANTED]
    hits: list[Hit] = []
    weight = 0
    if not wanted:
        return Hits("", ())
    named = _place(value, wanted)
    if named is not None:
        hits.append(Hit(_pointer(named), _path(named), "", readable(dotted_path(named)), "", is_key=True))
    for hit in _find_hits(value, lower_in_place(wanted)):
        weight += len(hit.pointer or "")
        if len(hits) == MOST_HITS or weight > _MOST_POINTERS:
            return Hits(wanted, tuple(hits), has_more=True)
        hits.append(hit)
    return Hits(wanted, tuple(hits))


def location_of(value: Any, at: str) -> Location | None:
    """Return the location that a JSON Pointer names; None if the document has no such place."""
    if at and not at.startswith("/"):
        return None
    location: Location = ()
    for part in parts_of(at):
        key: str | int = part
        if isinstance(value, list):
            if not (part.isascii() and part.isdecimal() and len(part) < 9 and int(part) < len(value)):
                return None
            key = int(part)
        elif not isinstance(value, dict) or part not in value:
            return None
        location, value = (*location, key), value[key]
    return location


def place_of_value(document: Any, value: str) -> str:
    """Return the JSON Pointer of the first text or number that contains `value`.

    The page of a trace links to such values. A number is found in any notation, such as `1,200` for 1200. Return an
    empty text if nothing contains the value, or if the pointer is too long for an address.
    """
    search = ValueSearch(forms_of(value))
    for location, leaf in _walk(document):
        is_searched = isinstance(leaf, str | int | float) and not isinstance(leaf, bool)
        if is_searched and search.find_in(str(leaf)):
            return _pointer(location) or ""
    return ""


def _place(value: Any, wanted: str) -> Location | None:
    if wanted.startswith("/"):
        return location_of(value, wanted)
    try:
        parts = parse_path(wanted)
    except PathError:
        return None
    exact = tuple(part for part in parts if isinstance(part, str | int))
    return location_of(value, pointer(exact)) if len(exact) == len(parts) > 1 else None


def _walk(root: Any) -> Iterator[tuple[Location, Any]]:
    """Yield every value of a document with its place, in document order."""
    # The function uses its own stack, because a document may be nested deeper than the recursion limit of Python.
    waiting: list[tuple[Location, Any]] = [((), root)]
    while waiting:
        location, value = waiting.pop()
        yield location, value
        if isinstance(value, dict):
            waiting.extend([((*location, key), inner) for key, inner in value.items()][::-1])
        elif isinstance(value, list):
            waiting.extend([((*location, at), inner) for at, inner in enumerate(value)][::-1])


def _find_hits(root: Any, wanted: str) -> Iterator[Hit]:
    for location, value in _walk(root):
        name = location[-1] if location else ""
        if isinstance(name, str) and wanted in lower_in_place(name):
            yield _hit(location, name, wanted, is_key=True)
        match value:
            case str() if wanted in lower_in_place(value):
                yield _hit(location, value, wanted)
            case bool() | None:
                pass
            case int() | float() if wanted in str(value):
                yield _hit(location, str(value), wanted)


def _hit(location: Location, text: str, wanted: str, *, is_key: bool = False) -> Hit:
    at = lower_in_place(text).find(wanted)
    end = at + len(wanted)
    first, last = max(at - _AROUND, 0), end + _AROUND
    return Hit(
        _pointer(location),
        _path(location),
        ("…" if first else "") + readable(text[first:at]),
        readable(text[at:end]),
        readable(text[end:last]) + ("…" if last < len(text) else ""),
        is_key=is_key,
    )


def _pointer(location: Location) -> str | None:
    return None if _is_long(location) or len(whole := pointer(location)) > MOST_POINTER else whole


def _path(location: Location) -> str:
    """Return the place in readable form; a very long place keeps only its end, which tells places apart."""
    is_long = _is_long(location)
    whole = readable(dotted_path(location[-1:] if is_long else location))
    return f"…{whole[-_LONGEST_PATH:]}" if is_long or len(whole) > _LONGEST_PATH else whole


def _is_long(location: Location) -> bool:
    return sum(len(part) for part in location if isinstance(part, str)) > MOST_POINTER


PART_TEMPLATE = "dashboard/handoff/part.html"

MOST_PATH = 1000

# For a larger document the page sends fewer nodes, and sends a folded part only when the reader unfolds the part.
SENT_WHOLE = 16 * 1024

NODES, NODES_OF_LARGE = 200, 80

EVERYTHING = Bounds(nodes=400, weight=60_000, unfolded=64)

BESIDE = ("context", "evidence")


def document_part(request: HttpRequest, who: TenantMembership, shown: Handoff) -> HttpResponse:
    """Render only the document section, for a reader who changes how the document is shown."""
    body = sections.body_of(shown)
    document = choose_document(body, queries.current_verdict(shown))
    context = {
        "handoff": shown,
        "who": who,
        "part_url": reverse("dashboard:handoff_part", args=[who.tenant.slug, shown.pk]),
        **document_context(request, shown, body, document, batch(document.found, 0)),
    }
    response = render(request, "dashboard/handoff/document.html", context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def document_context(
    request: HttpRequest, shown: Handoff, body: HandoffBody, document: ShownDocument, placed: Sequence[Finding]
) -> dict[str, Any]:
    """Return the context of the document section: the tree with the findings `placed`, or the raw text.

    If retention has removed the document, return only the record of the removal.
    """
    if removed := queries.removal_of(shown) if document.value is None else None:
        return {"removed": removed}
    original = bytes(body.original)
    if document.value is None:
        raw = raw_part(original, number(request.GET.get("start", "0")) or 0)
        return {"excerpt": excerpt(original, placed), "raw": raw, "unreadable": True}
    if request.GET.get("view") == "raw":
        return {"raw": raw_part(original, number(request.GET.get("start", "0")) or 0)}
    asked = request.GET.get("at", "")[:MOST_POINTER]
    at = asked if asked and location_of(document.value, asked) is not None else ""
    value = "" if asked else request.GET.get("value", "")[:MOST_WANTED]
    at = place_of_value(document.value, value) if value else at
    is_missing = bool(asked) and not at and all(issue.pointer != asked for issue in placed)
    only, opened = request.GET.get("only") == "issues", request.GET.get("open") == "all"
    return {
        "tree": tree(
            document.value,
            spots_of(placed, at),
            counted=spots_of(document.found),
            bounds=_bounds(shown, only=only, opened=opened),
        ),
        "hits": look_up(document.value, request.GET["find"]) if request.GET.get("find") else None,
        "is_lifted": document.is_lifted,
        "only_issues": only,
        "all_open": opened,
        "at": at,
        "at_missing": asked if is_missing else "",
        "value_missing": "" if at else value,
        "has_placed": any(issue.is_placed and issue.pointer for issue in placed),
    }


def _bounds(shown: Handoff, *, only: bool, opened: bool) -> Bounds:
    if opened:
        return EVERYTHING
    is_small = shown.size_bytes <= SENT_WHOLE
    return Bounds(nodes=NODES if is_small else NODES_OF_LARGE, fills_folded=is_small, only_found=only)


@require_safe
@require_role(Role.VIEWER)
def part(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Render a part of the document, the context or the evidence: a fragment for htmx, otherwise a page.

    The part begins at an entry of a list or object, or at a character of a text.
    """
    shown = sections.handoff_or_404(who, pk)
    body = sections.body_of(shown)
    of, where, start = request.GET.get("of", ""), request.GET.get("path", ""), number(request.GET.get("from", "0"))
    end = number(request.GET.get("to", ""))
    document = _document_of(shown, body, of)
    if document.value is None or start is None or len(where) > MOST_PATH:
        raise Http404("The document has no such part.")
    try:
        context = {
            "handoff": shown,
            "of": of,
            "place": place_of(document.value, where),
            **_part(document, where, start, end, unfolded=0 if is_htmx(request) else 2),
        }
    except PartNotFoundError as error:
        raise Http404("The document has no such part.") from error
    context["part_url"] = request.path
    name = f"{PART_TEMPLATE}#{context['kind']}" if is_htmx(request) else PART_TEMPLATE
    response = render(request, name, context)
    patch_vary_headers(response, ["HX-Request", "HX-Target"])
    return response


def _document_of(shown: Handoff, body: HandoffBody, of: str) -> ShownDocument:
    if not of:
        return choose_document(body, queries.current_verdict(shown))
    return ShownDocument(sections.parse_body(body, of) if of in BESIDE else None, ())


def _part(document: ShownDocument, where: str, start: int, end: int | None, *, unfolded: int) -> dict[str, Any]:
    value = document.value
    if is_text(value, where):
        text, following, length = text_piece(value, where, start)
        return {"kind": "text", "text": text, "following": following, "length": length, "path": where, "start": start}
    bounds = Bounds(unfolded=unfolded, fills_folded=False)
    node = tree(value, spots_of(document.found), bounds=bounds, path=where, start=start, end=end)
    return {"kind": "entries", "node": node, "start": start}


@require_safe
@require_role(Role.VIEWER)
def raw(request: HttpRequest, who: TenantMembership, pk: UUID) -> HttpResponse:
    """Download the document byte for byte as it arrived, apart from values that an erasure replaced."""
    shown = sections.handoff_or_404(who, pk)
    body = queries.body(shown)
    if body is None:
        messages.info(request, "Retention has deleted the document: there is nothing to download.")
        return redirect("dashboard:handoff", tenant=who.tenant.slug, pk=shown.pk)
    response = HttpResponse(bytes(body.original), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="handoff-{shown.pk}.txt"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None


urlpatterns = [
    path("handoffs/<uuid:pk>/part/", part, name="handoff_part"),
    path("handoffs/<uuid:pk>/raw/", raw, name="handoff_raw"),
]
