"""The Help pages and their search, and the API reference, read from the OpenAPI description."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard import help_guides
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role
from handoffaudit.dashboard.connect_ways import WAYS
from handoffaudit.dashboard.diagnostics.codes import by_layer
from handoffaudit.dashboard.help_guides import GUIDES, LOOKED_UP, read_introduction, sections
from handoffaudit.dashboard.review.page import keys_for
from handoffaudit.problem_types import PROBLEM_TYPES
from handoffaudit.validation.layers import CATALOGUE, FAMILIES

PROBLEM: Final = "ProblemOut"

# The end of a line inside a paragraph or an item of a list.
_WRAPPED: Final = re.compile(r"(?<!\n)\n(?![\n*-])")

_EXAMPLE_TENANT: Final = '"tenant_id": "default"'

_METHODS: Final = ("get", "put", "post", "delete", "patch")


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a body or a response.

    `place` says where a parameter is, such as `path` or `query`. For a field of a body or a response, `place` is empty.
    """

    name: str
    kind: str
    about: str
    required: bool = False
    place: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A response of an operation; `problem` is true for a problem document."""

    status: str
    about: str
    fields: Sequence[Field]
    problem: bool


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    method: str
    path: str
    tag: str
    summary: str
    about: str
    parameters: Sequence[Field]
    body: Sequence[Field]
    content_type: str
    examples: Sequence[Example]
    answers: Sequence[Answer]
    keyed: bool

    def curl(self, server: str, tenant_slug: str) -> str:
        """Return a curl command for the tenant, with placeholders in capitals for the key and required parameters."""
        path = self.path
        for field in self.parameters:
            if field.place == "path":
                path = path.replace("{" + field.name + "}", field.name.upper())
        needed = [field.name for field in self.parameters if field.place == "query" and field.required]
        query = "&".join(f"{name}={name.upper()}" for name in needed)
        address = f"'{server}{path}?{query}'" if query else f"'{server}{path}'"
        parts = [f"curl {address}" if self.method == "GET" else f"curl -X {self.method} {address}"]
        if self.keyed:
            parts.append("-H 'Authorization: Bearer YOUR_KEY'")
        if self.examples:
            body = self.examples[0].text.replace(_EXAMPLE_TENANT, f'"tenant_id": "{tenant_slug}"')
            parts += [f"-H 'Content-Type: {self.content_type}'", f"-d '{_escape_quotes(body)}'"]
        return " \\\n  ".join(parts)


@cache
def operations() -> Sequence[Operation]:
    """Return the operations by tag and then by path, with the tag Handoffs first."""
    described = _load_openapi()
    found = [
        _operation(described, path, method, one)
        for path, methods in described["paths"].items()
        for method, one in methods.items()
        if method in _METHODS
    ]
    tags = list(dict.fromkeys(one.tag for one in sorted(found, key=lambda one: one.tag != "Handoffs")))
    return sorted(found, key=lambda one: tags.index(one.tag))


def by_tag() -> dict[str, list[Operation]]:
    tags: dict[str, list[Operation]] = {}
    for one in operations():
        tags.setdefault(one.tag, []).append(one)
    return tags


def operation(name: str) -> Operation:
    found = next((one for one in operations() if one.name == name), None)
    if found is None:
        raise Http404("The API has no such call.")
    return found


@cache
def _load_openapi() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(settings.WEB) / "docs" / "openapi.json").read_text(encoding="utf-8"))
    return found


def _operation(described: Mapping[str, Any], path: str, method: str, one: Mapping[str, Any]) -> Operation:
    content = one.get("requestBody", {}).get("content", {})
    content_type = next(iter(content), "")
    body = content.get(content_type, {})
    return Operation(
        name=_short(one["operationId"]),
        method=method.upper(),
        path=path,
        tag=(one.get("tags") or ["Other"])[0],
        summary=one.get("summary", ""),
        about=_WRAPPED.sub(" ", one.get("description", "")),
        parameters=[_parameter(given) for given in one.get("parameters", ())],
        body=list(_fields(described, body.get("schema", {}))),
        content_type=content_type,
        examples=list(_examples(body)),
        answers=[_answer(described, status, given) for status, given in one["responses"].items()],
        keyed=bool(one.get("security")),
    )


def _short(operation_id: str) -> str:
    """Return the operation's short id: ninja puts the module before the name of a view that exists in two modules."""
    return operation_id.rpartition("_alerts_")[2] or operation_id


def _parameter(given: Mapping[str, Any]) -> Field:
    schema = given.get("schema", {})
    default = schema.get("default")
    return Field(
        name=given["name"],
        kind=_kind(schema),
        about=given.get("description", ""),
        required=given.get("required", False),
        place=given["in"],
        default="" if default in (None, "") else str(default),
    )


def _examples(body: Mapping[str, Any]) -> Iterator[Example]:
    given = [("", {"value": body["example"]})] if "example" in body else list(body.get("examples", {}).items())
    for name, one in given:
        value = one.get("value")
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        yield Example(one.get("summary") or name or "An example", text)


def _answer(described: Mapping[str, Any], status: str, given: Mapping[str, Any]) -> Answer:
    content = given.get("content", {})
    first: Mapping[str, Any] = next(iter(content.values()), {})
    schema = first.get("schema", {})
    problem = schema.get("$ref", "").endswith(f"/{PROBLEM}")
    about = given.get("description", "") + (
        "" if not content or "application/json" in content else f", {next(iter(content))}"
    )
    return Answer(status, about, [] if problem else list(_fields(described, schema)), problem)


def _fields(described: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Field]:
    """Yield the fields of an object, or of each of its variants; nested objects appear only with their kind."""
    schema = _resolve(described, schema)
    for variant in schema.get("oneOf") or schema.get("anyOf") or ():
        yield from _fields(described, variant)
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        about = one.get("description") or _resolve(described, one).get("description", "")
        yield Field(name, _kind(one), about, name in required)


def _resolve(described: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref", "")
    if not reference:
        return schema
    found: Any = described
    for part in reference.removeprefix("#/").split("/"):
        found = found[part]
    return dict(found)


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return "object"
    if "enum" in schema:
        return "one of " + ", ".join(str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _escape_quotes(text: str) -> str:
    """Escape a text for use inside single quotes of a shell."""
    return text.replace("'", "'\\''")


MOST_FOUND = 40

LONGEST_QUERY = 100

_EXCERPT = 180


@dataclass(frozen=True, slots=True)
class Hit:
    """A search result. `kind` names its type. `text` is searched like the title, and its beginning is shown."""

    kind: str
    title: str
    text: str
    href: str

    @property
    def excerpt(self) -> str:
        return self.text if len(self.text) <= _EXCERPT else self.text[:_EXCERPT].rpartition(" ")[0] + " …"


def search(tenant: Tenant, query: str) -> list[Hit]:
    """Return the entries that contain every word of the query, matches in the title first.

    At most `MOST_FOUND` entries are returned.
    """
    words = query.casefold()[:LONGEST_QUERY].split()
    if not words:
        return []
    ranked = [(_rank(one, words), one) for one in _list_searchable(tenant)]
    ranked.sort(key=lambda pair: pair[0])
    return [one for rank, one in ranked if rank < len(words) * 10][:MOST_FOUND]


def _rank(found: Hit, words: Sequence[str]) -> int:
    """Return the rank of an entry: the number of words that only the text contains, so 0 if the title contains all.

    If a word is in neither, the rank is so high that `search` leaves the entry out.
    """
    title, text = found.title.casefold(), found.text.casefold()
    return sum(0 if word in title else 1 if word in text else len(words) * 10 for word in words)


def _list_searchable(tenant: Tenant) -> Iterator[Hit]:
    for entry in (*CATALOGUE.values(), *FAMILIES.values()):
        text = f"{entry.what} {entry.why} {entry.hint}"
        href = reverse("dashboard:code", args=[tenant.slug, entry.code])
        yield Hit("code", f"{entry.title} {entry.code}", text, href)
    for way in WAYS:
        href = f"{reverse('dashboard:connect', args=[tenant.slug])}?with={way.name}"
        yield Hit("page", f"Connect {way.label}", " ".join((*way.sees, *way.gate, *way.misses)), href)
    for guide in (*GUIDES, *LOOKED_UP):
        href = reverse("dashboard:help_guide", args=[tenant.slug, guide.name])
        yield Hit("guide", guide.title, f"{guide.about} {read_introduction(guide.name)}", href)
        for section in sections(guide.name):
            yield Hit("guide", f"{section.heading} ({guide.title})", section.text, f"{href}#{section.anchor}")
    for call in operations():
        href = reverse("dashboard:help_call", args=[tenant.slug, call.name])
        yield Hit("API", f"{call.method} {call.path}", f"{call.summary}. {call.about}", href)


@require_role(Role.VIEWER)
@require_safe
def home(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the overview of Help, or the results of a search."""
    query = request.GET.get("q", "").strip()[:LONGEST_QUERY]
    context = {
        "query": query,
        "found": search(who.tenant, query),
        "guides": help_guides.GUIDES,
        "looked_up": help_guides.LOOKED_UP,
        "ways": [way.label for way in WAYS],
        "review_keys": keys_for(may_review=who.may(Role.REVIEWER)),
        "codes": len(CATALOGUE),
        "calls": len(operations()),
    }
    return render_page(request, "dashboard/help/home.html", context)


@require_role(Role.VIEWER)
@require_safe
def codes(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return render_page(request, "dashboard/help/codes.html", {"layers": by_layer()})


@require_role(Role.VIEWER)
@require_safe
def guide(request: HttpRequest, who: TenantMembership, name: str) -> HttpResponse:
    shown = help_guides.guide(name)
    context = {
        "guide": shown,
        "guides": help_guides.GUIDES,
        "looked_up": help_guides.LOOKED_UP,
        "sections": help_guides.sections(name),
        "text": help_guides.render_guide(name, who, _server(request)),
    }
    return render_page(request, "dashboard/help/guide.html", context)


@require_role(Role.VIEWER)
@require_safe
def calls(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return render_page(request, "dashboard/help/calls.html", {"tags": by_tag(), "server": _server(request)})


@require_role(Role.VIEWER)
@require_safe
def call(request: HttpRequest, who: TenantMembership, name: str) -> HttpResponse:
    shown = operation(name)
    context = {"call": shown, "curl": shown.curl(_server(request), who.tenant.slug)}
    return render_page(request, "dashboard/help/call.html", context)


@require_role(Role.VIEWER)
@require_safe
def problems(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    return render_page(request, "dashboard/help/problems.html", {"problems": PROBLEM_TYPES.values()})


def _server(request: HttpRequest) -> str:
    return settings.PUBLIC_URL or request.build_absolute_uri("/").rstrip("/")


urlpatterns = [
    path("help/", home, name="help"),
    path("help/codes/", codes, name="help_codes"),
    path("help/guide/<slug:name>/", guide, name="help_guide"),
    path("help/problems/", problems, name="help_problems"),
    path("help/api/", calls, name="help_api"),
    path("help/api/<slug:name>/", call, name="help_call"),
]
