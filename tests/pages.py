"""Read pages with an HTML parser: find elements by CSS selector, and return their text and attributes."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol

from selectolax.lexbor import LexborHTMLParser, LexborNode


class Answer(Protocol):
    """An HTTP response, of Django's test client or of httpx."""

    @property
    def text(self) -> str: ...


Element = LexborNode
Source = str | Answer | Element


def select(source: Source, selector: str) -> list[Element]:
    """Return all elements of a page, a fragment or an element that match, in the order of the page.

    Parsers drop the tags of table rows that are outside of a table, and the content of a `<template>` is not searched.
    """
    if isinstance(source, Element):
        return source.css(selector)
    return _parse(source if isinstance(source, str) else source.text).css(selector)


def only(source: Source, selector: str) -> Element:
    """Return the one element that matches, and fail if there is none or more than one."""
    found = select(source, selector)
    assert len(found) == 1, f"{len(found)} elements match {selector}"
    return found[0]


def text_of(source: Source, selector: str = "") -> str:
    """Return the text of the one element that matches, with single spaces; without a selector, all the text."""
    if isinstance(source, Element) and not selector:
        return _tidy(source)
    return _tidy(only(source, selector or "body"))


def texts(source: Source, selector: str) -> list[str]:
    """Return the text of each element that matches, with single spaces."""
    return [_tidy(one) for one in select(source, selector)]


def attributes(source: Source, selector: str, name: str) -> list[str]:
    """Return one attribute of each element that matches and has it; an attribute without a value is empty."""
    return [one.attributes[name] or "" for one in select(source, selector) if name in one.attributes]


def links(source: Source, selector: str = "a") -> list[str]:
    """Return the addresses of the links that match."""
    return attributes(source, selector, "href")


def raw_text(source: Source, selector: str) -> str:
    """Return the text of the one element that matches, with all its spaces and line breaks."""
    return only(source, selector).text()


def hidden_fields(form: Source) -> Iterator[tuple[str, str]]:
    """Yield name and value of each hidden field of a form, except the CSRF token."""
    for one in select(form, "input[type=hidden]"):
        if one.attributes["name"] != "csrfmiddlewaretoken":
            yield one.attributes["name"] or "", one.attributes.get("value") or ""


def inline_parts(source: Source) -> list[str]:
    """Return the scripts, styles and event handlers that stand in the page itself, which a strict policy forbids.

    A script of the type `application/json` is data: browsers do not run it.
    """
    found = [f"<{one.tag}>" for one in select(source, 'style, script:not([src]):not([type="application/json"])')]
    for one in select(source, "*"):
        for name, value in one.attributes.items():
            if name == "style" or name.startswith("on") or (value or "").strip().lower().startswith("javascript:"):
                found.append(f"<{one.tag} {name}>")
    return found


def emptied(html: str, selector: str) -> str:
    """Return the page without the content of the elements that match."""
    page = LexborHTMLParser(html)
    for one in page.css(selector):
        one.inner_html = ""
    return page.html or ""


@lru_cache(maxsize=8)
def _parse(html: str) -> LexborHTMLParser:
    """Parse a page once, although a test asks for several of its elements."""
    return LexborHTMLParser(html)


def _tidy(node: Element) -> str:
    return " ".join(node.text().split())
