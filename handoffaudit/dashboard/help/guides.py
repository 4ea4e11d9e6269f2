"""The guides of `docs/`, one for each role, as pages: the same files, rendered."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from django.conf import settings
from django.http import Http404
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt
from markdown_it.token import Token

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.navigation import GROUPS


@dataclass(frozen=True, slots=True)
class Guide:
    """`name` stands in the address, and in the file's name after `guide-`."""

    name: str
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a guide under a heading of its own."""

    anchor: str
    heading: str
    text: str


GUIDES: Final = (
    Guide("reviewer", "For reviewers", "Decide what waits, quickly and fairly, and keep noise out of the queue."),
    Guide("developer", "For agent developers", "Send handoffs, read verdicts, mend what is rejected."),
    Guide("operator", "For operators", "Run it, let people in, set what is demanded, keep it healthy."),
)
_PAGES: Final = {page.label: page.name for group in GROUPS for page in group.pages}
# What a guide may link to besides the other guides, and where that is in the product.
ELSEWHERE: Final = {"codes.md": "help_codes", "api.md": "help_api"}
_GUIDE: Final = re.compile(r"guide-([a-z]+)\.md")
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)


def guide(name: str) -> Guide:
    found = next((one for one in GUIDES if one.name == name), None)
    if found is None:
        raise Http404("There is no such guide.")
    return found


@cache
def source(name: str) -> str:
    """As it stands in `docs/`, without its first heading, which is the page's."""
    text = (Path(settings.WEB) / "docs" / f"guide-{name}.md").read_text(encoding="utf-8")
    return text.partition("\n")[2] if text.startswith("# ") else text


@cache
def sections(name: str) -> Sequence[Section]:
    heads = list(_HEADING.finditer(source(name)))
    ends = [*(head.start() for head in heads[1:]), None]
    return [
        Section(slugify(head[1]), head[1], source(name)[head.end() : end].strip())
        for head, end in zip(heads, ends, strict=True)
    ]


@cache
def _tokens(name: str) -> Sequence[Token]:
    return MarkdownIt("commonmark", {"html": False}).enable("table").parse(source(name))


def rendered(name: str, tenant: Tenant) -> SafeString:
    """As HTML. Links lead to the product's own pages; a page named in bold is a link to it."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = [token.copy(children=list(token.children) if token.children else None) for token in _tokens(name)]
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slugify(tokens[number + 1].content))
        elif token.type in ("fence", "code_block"):
            tokens[number] = _code(token, number)
        elif token.type == "inline" and token.children:
            token.children = [_linked(child, tenant) for child in _with_pages(token.children, tenant)]
    # Its input is a file of ours, and it writes no HTML of that file.
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    return mark_safe(html)  # noqa: S308


def _code(token: Token, number: int) -> Token:
    """`number` tells it from the others for who hears the page."""
    box = '<pre class="snippet" tabindex="0" role="region" aria-label="Example {}">{}</pre>\n'
    return Token("html_block", "", 0, content=format_html(box, number, token.content.rstrip()))


def _linked(token: Token, tenant: Tenant) -> Token:
    href = token.attrs.get("href") if token.type == "link_open" else None
    if not isinstance(href, str) or "://" in href or href.startswith(("#", "/")):
        return token
    page, _, anchor = href.partition("#")
    token = token.copy(attrs=dict(token.attrs))
    token.attrSet("href", _address(page, tenant) + (f"#{anchor}" if anchor else ""))
    return token


def _address(page: str, tenant: Tenant) -> str:
    if found := _GUIDE.fullmatch(page):
        return reverse("dashboard:help_guide", args=[tenant.slug, found[1]])
    return reverse(f"dashboard:{ELSEWHERE[page]}", args=[tenant.slug])


def _with_pages(children: list[Token], tenant: Tenant) -> list[Token]:
    """`**Review**` becomes a link to that page."""
    found: list[Token] = []
    for number, token in enumerate(children):
        inside = children[number + 1] if token.type == "strong_open" else None
        page = _PAGES.get(inside.content) if inside is not None and inside.type == "text" else None
        if page and children[number + 2].type == "strong_close":
            opened = Token("link_open", "a", 1, attrs={"href": reverse(f"dashboard:{page}", args=[tenant.slug])})
            # markdown-it leaves its own links alone only where they say that they are ready.
            opened.info = "page"
            found.append(opened)
        elif token.type == "strong_close" and found[-2:-1] and found[-2].info == "page":
            found.append(Token("link_close", "a", -1))
        else:
            found.append(token)
    return found
