"""Guides from docs/, rendered as pages of Help: one guide for each role, and guides to look things up in."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.http import Http404
from django.urls import resolve, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt
from markdown_it.token import Token

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.dashboard.navigation import GROUPS
from handoffaudit.dashboard.templatetags.ui import icon


@dataclass(frozen=True, slots=True)
class Guide:
    """A guide; `name` is used in the address, and the file's name is `guide-<name>.md` or `<name>.md`."""

    name: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a guide with its heading."""

    anchor: str
    heading: str
    text: str


GUIDES: Final = (
    Guide(
        "reviewer", "For reviewers", "Decide held and rejected handoffs, and keep repeated findings out of the queue."
    ),
    Guide("developer", "For agent developers", "Send handoffs, read verdicts, fix rejected handoffs."),
    Guide("operator", "For operators", "Run the server, invite people, set policies, check the server's health."),
)

LOOKED_UP: Final = (
    Guide("client", "Python client", "Install the client, ask for verdicts, send without waiting, test your agents."),
    Guide("connect-langgraph", "LangGraph and LangChain", "Observe the handoffs of a graph, stop them, and resume."),
    Guide("connect-openai-agents", "OpenAI Agents", "Observe the handoffs of a run, and stop them."),
    Guide("connect-opentelemetry", "OpenTelemetry", "Send traces of any framework without code, and see the handoffs."),
    Guide("connect-pydantic-ai", "Pydantic AI", "Observe the handoffs of agents, stop them, and resume."),
    Guide("connect-google-adk", "Google ADK", "Observe the handoffs of a runner, and stop them."),
    Guide("connect-crewai", "CrewAI", "Observe the delegations and tasks of crews, and stop them."),
    Guide("connect-strands", "Strands Agents", "Observe the handoffs of a swarm, stop them, and resume."),
    Guide("connect-a2a", "A2A", "Stop messages between agents on the server or in the client, and resume."),
    Guide(
        "connect-events",
        "AutoGen, LlamaIndex, Agno, smolagents",
        "Send the handoffs of these frameworks in a few lines.",
    ),
    Guide("mcp", "MCP", "Give Claude Code, Claude Desktop and Cursor the tools to submit and check handoffs."),
    Guide("connect-claude-code", "Claude Code", "Ask the server before a task goes to a subagent."),
    Guide("handoff-files", "Handoff files", "Report the files of agents, and have a missing file fail the phase."),
    Guide("start", "Start and stop", "Start the server, find its data, let other machines in."),
    Guide("commands", "Commands", "Each command of the server with its options."),
    Guide("settings", "Settings of the server", "Each environment variable with its effect and its default."),
    Guide("sign-in", "How people sign in", "Connect an OpenID provider, switch passwords off, require second factors."),
    Guide("deploy", "Deploy", "Run the server with systemd, Docker Compose or Kubernetes, and roll back."),
    Guide("metrics", "Metrics of the server", "Watch the server with Prometheus and Grafana."),
    Guide("evidence-bundle", "Seals and evidence bundles", "Prove what was decided, and hand records to an auditor."),
    Guide("compliance", "Duties and records", "What the EU AI Act and standards ask for, and what is recorded."),
    Guide("upkeep", "Back up and upgrade", "Back up, restore, upgrade, and verify counts and logs."),
    Guide("postgresql", "PostgreSQL and Redis", "Run the server in several processes, on one or more machines."),
    Guide("troubleshooting", "Troubleshooting", "Error messages and how to fix their causes."),
    Guide("webhooks", "Webhooks and e-mail", "Events, payloads, signatures and deliveries."),
)

_PAGES: Final = {page.label: page.name for group in GROUPS for page in group.pages}

# The guides link to these files. The topic of each file has a page in the product.
ELSEWHERE: Final = {
    "codes.md": "help_codes",
    "connect.md": "connect",
    "api.md": "help_api",
    "submit.md": "help_api",
    "formats.md": "help_api",
    "hooks.md": "help_api",
    "alerts.md": "alerts",
    "groups.md": "groups",
    "model.md": "model_health",
    "retention.md": "retention",
    "keys.md": "settings_keys",
    "strictness.md": "strictness",
    "tool-results.md": "help_api",
    "gate.md": "help_api",
    "traces.md": "traces",
    "review.md": "review",
}

# The files name this example server and tenant; the page replaces them with the reader's own.
_EXAMPLE_SERVER: Final = "http://127.0.0.1:8000"

_EXAMPLE_TENANT: Final = '"tenant_id": "default"'

_FILES: Final = {f"guide-{one.name}.md": one.name for one in GUIDES} | {f"{one.name}.md": one.name for one in LOOKED_UP}

_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)


def guide(name: str) -> Guide:
    found = next((one for one in (*GUIDES, *LOOKED_UP) if one.name == name), None)
    if found is None:
        raise Http404("There is no such guide.")
    return found


@cache
def source(name: str) -> str:
    """Return the guide's source from `docs/` without the first heading, which the page shows as its own."""
    file = next(file for file, of in _FILES.items() if of == name)
    text = (Path(settings.WEB) / "docs" / file).read_text(encoding="utf-8")
    return text.partition("\n")[2] if text.startswith("# ") else text


@cache
def sections(name: str) -> Sequence[Section]:
    heads = list(_HEADING.finditer(source(name)))
    ends = [*(head.start() for head in heads[1:]), None][: len(heads)]
    return [
        Section(slugify(head[1]), head[1], source(name)[head.end() : end].strip())
        for head, end in zip(heads, ends, strict=True)
    ]


@cache
def read_introduction(name: str) -> str:
    """Return the text before the first section."""
    head = _HEADING.search(source(name))
    return source(name)[: head.start() if head else None].strip()


@cache
def _tokens(name: str) -> Sequence[Token]:
    return MarkdownIt("commonmark", {"html": False}).enable("table").parse(source(name))


def render_guide(name: str, who: TenantMembership, server: str) -> SafeString:
    """Return the guide as HTML.

    Links lead to pages of the product that the reader may open, and a page named in bold becomes a link. The examples
    to copy contain the address `server` and the reader's tenant.
    """
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = [token.copy(children=list(token.children) if token.children else None) for token in _tokens(name)]
    heading = ""
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            heading = slugify(tokens[number + 1].content)
            token.attrSet("id", heading)
        elif token.type == "table_open":
            token.attrSet(*("aria-labelledby", heading) if heading else ("aria-label", guide(name).title))
        elif token.type == "th_open":
            token.attrSet("scope", "col")
        elif token.type in ("fence", "code_block"):
            text = token.content.replace(_EXAMPLE_SERVER, server)
            tokens[number] = _code(text.replace(_EXAMPLE_TENANT, f'"tenant_id": "{who.tenant.slug}"'), number)
        elif token.type == "inline" and token.children:
            children = [_resolve_link(child, who.tenant) for child in _with_pages(token.children, who.tenant)]
            token.children = list(_open_to(who, children))
    # The input is a file of the product, and the renderer passes no HTML of that file through.
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    return mark_safe(html)  # noqa: S308


def _code(text: str, number: int) -> Token:
    """Return a block of code with a copy button; `number` distinguishes the examples, also for screen readers."""
    box = (
        '<div class="copyable"><pre class="snippet" id="example-{}" tabindex="0" role="region" aria-label="Example {}">'
        '{}</pre><button class="button" type="button" data-copy="example-{}">{}Copy'
        '<span class="hidden"> example {}</span></button></div>\n'
    )
    filled = format_html(box, number, number, text.rstrip(), number, icon("copy"), number)
    return Token("html_block", "", 0, content=filled)


def _resolve_link(token: Token, tenant: Tenant) -> Token:
    href = token.attrs.get("href") if token.type == "link_open" else None
    if not isinstance(href, str) or "://" in href or href.startswith(("#", "/")):
        return token
    page, _, anchor = href.partition("#")
    token = token.copy(attrs=dict(token.attrs))
    token.attrSet("href", _address(page, tenant) + (f"#{anchor}" if anchor and page in _FILES else ""))
    return token


def _open_to(who: TenantMembership, children: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens without links to pages that need a higher role or that the product lacks; the text stays."""
    kept = True
    for token in children:
        if token.type == "link_open":
            href = str(token.attrs["href"])
            view: Any = resolve(href.partition("#")[0]).func if href.startswith("/") else None
            kept = bool(href) and (view is None or who.may(view.role))
        if kept or token.type not in ("link_open", "link_close"):
            yield token


def _address(page: str, tenant: Tenant) -> str:
    """Return the address of a page; empty if the product does not have it."""
    if name := _FILES.get(page):
        return reverse("dashboard:help_guide", args=[tenant.slug, name])
    return reverse(f"dashboard:{ELSEWHERE[page]}", args=[tenant.slug]) if page in ELSEWHERE else ""


def _with_pages(children: list[Token], tenant: Tenant) -> list[Token]:
    """Turn a page name in bold, such as `**Review**`, into a link to that page."""
    found: list[Token] = []
    for number, token in enumerate(children):
        inside = children[number + 1] if token.type == "strong_open" else None
        page = _PAGES.get(inside.content) if inside is not None and inside.type == "text" else None
        if page and children[number + 2].type == "strong_close":
            opened = Token("link_open", "a", 1, attrs={"href": reverse(f"dashboard:{page}", args=[tenant.slug])})
            # The marker distinguishes the end of this link from the end of bold text.
            opened.info = "page"
            found.append(opened)
        elif token.type == "strong_close" and found[-2:-1] and found[-2].info == "page":
            found.append(Token("link_close", "a", -1))
        else:
            found.append(token)
    return found
