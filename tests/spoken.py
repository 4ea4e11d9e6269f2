"""A page as a screen reader speaks it, from its HTML alone, and checks of what a listener would misunderstand.

These checks need no style sheet; axe checks the rest in a browser.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise
from typing import TypeGuard

VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
    | {"circle", "line", "path", "rect", "use"}
)
UNREAD = frozenset({"script", "style", "template", "noscript", "datalist"})
# Elements that are read without a pause before and after them.
INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "button", "code", "del", "em", "i", "ins", "kbd", "label", "mark", "q", "s", "small"}
    | {"span", "strong", "sub", "sup", "time", "tspan"}
)
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Elements that take their accessible name from their own words.
FROM_WITHIN = frozenset({"a", "button", "summary", "td", "th", "li", "option", *HEADINGS})
TITLES = {"table": "caption", "fieldset": "legend", "svg": "title", "figure": "figcaption"}
# Elements whose words tell what a link in them is about.
AROUND = frozenset({"tr", "li", "article"})


@dataclass(eq=False)
class Element:
    tag: str
    attrs: dict[str, str] = field(default_factory=dict)
    parent: "Element | None" = None
    children: "list[Element | str]" = field(default_factory=list)

    @property
    def role(self) -> str:
        return self.attrs.get("role", "")

    @property
    def is_unread(self) -> bool:
        return self.tag in UNREAD or self.attrs.get("aria-hidden") == "true" or "hidden" in self.attrs

    def all(self, *tags: str) -> "Iterator[Element]":
        """Return the element and its spoken descendants, in the order of the page."""
        if self.is_unread:
            return
        if not tags or self.tag in tags:
            yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.all(*tags)

    def around(self) -> "Iterator[Element]":
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def __str__(self) -> str:
        told = " ".join(f'{name}="{self.attrs[name][:60]}"' for name in ("id", "class", "href") if name in self.attrs)
        return f"<{self.tag} {told}>".replace(" >", ">")


class Page(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = self._at = Element("document")
        self.feed(html)
        self.ids = {one.attrs["id"]: one for one in _every(self.root) if "id" in one.attrs}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        one = Element(tag, {name: value or "" for name, value in attrs}, self._at)
        self._at.children.append(one)
        if tag not in VOID:
            self._at = one

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._at.children.append(Element(tag, {name: value or "" for name, value in attrs}, self._at))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self._at.parent is not None:
            self._at = self._at.parent

    def handle_data(self, data: str) -> None:
        self._at.children.append(data)

    def name(self, one: Element) -> str:
        """Return the accessible name of an element."""
        if "aria-labelledby" in one.attrs:
            named = (self.ids.get(each) for each in one.attrs["aria-labelledby"].split())
            return tidy(" ".join(read(each) for each in named if each))
        return tidy(one.attrs.get("aria-label", "")) or tidy(self._own_name(one)) or tidy(one.attrs.get("title", ""))

    def _own_name(self, one: Element) -> str:
        if one.tag in FROM_WITHIN:
            return read(one)
        if one.tag in TITLES:
            return next((read(each) for each in one.children if _is(each, TITLES[one.tag])), "")
        if one.tag == "input" and one.attrs.get("type") in ("submit", "button"):
            return one.attrs.get("value", "")
        if one.tag in ("input", "select", "textarea"):
            return self._label(one)
        return one.attrs.get("alt", "") if one.tag == "img" else ""

    def _label(self, one: Element) -> str:
        wrapped = next((above for above in one.around() if above.tag == "label"), None)
        if wrapped:
            return read(wrapped)
        wanted = one.attrs.get("id", "")
        return next((read(each) for each in self.root.all("label") if wanted and each.attrs.get("for") == wanted), "")


def _is(one: Element | str, tag: str) -> TypeGuard[Element]:
    return isinstance(one, Element) and one.tag == tag


def _every(one: Element) -> Iterator[Element]:
    yield one
    for child in one.children:
        if isinstance(child, Element):
            yield from _every(child)


def tidy(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def read(one: Element) -> str:
    """Return the words of an element; the words of an image are its label."""
    return "".join(_pieces(one))


def _pieces(one: Element) -> Iterator[str]:
    if one.is_unread:
        return
    if one.tag == "svg" or one.role == "img":
        label = one.attrs.get("aria-label") or next((read(each) for each in one.children if _is(each, "title")), "")
        yield f" {label} "
        return
    for child in one.children:
        if isinstance(child, str):
            yield child
            continue
        apart = "" if child.tag in INLINE else " "
        yield apart
        yield from _pieces(child)
        yield apart


def flaws(html: str) -> list[str]:
    """Return the flaws of a page for a person who only hears it."""
    page = Page(html)
    return [flaw for check in CHECKS for flaw in check(page)]


def _headings(page: Page) -> Iterator[str]:
    found = list(page.root.all(*HEADINGS))
    if [one.tag for one in found].count("h1") != 1:
        yield f"{[one.tag for one in found].count('h1')} headings of the first level"
    before = 0
    for one in found:
        level = int(one.tag[1])
        if level > before + 1:
            yield f"a heading of level {level} after one of level {before}: {page.name(one)}"
        if not page.name(one):
            yield f"a heading without words: {one}"
        before = level


def _landmarks(page: Page) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for one in page.root.all("nav", "section", "form", "main", "aside", "search", "div", "header", "footer"):
        kind = _landmark(page, one)
        if not kind:
            continue
        place = (kind, page.name(one))
        if place in seen:
            yield f"two landmarks alike: {kind} {place[1]!r}"
        if kind == "navigation" and not place[1]:
            yield f"a navigation without a name: {one}"
        seen.add(place)


def _landmark(page: Page, one: Element) -> str:
    if one.role:
        return one.role if one.role in ("region", "search", "navigation") else ""
    match one.tag:
        case "nav":
            return "navigation"
        case "main" | "aside":
            return one.tag
        case "section" | "form" if page.name(one):
            return "region" if one.tag == "section" else "form"
        case _:
            return ""


def _links(page: Page) -> Iterator[str]:
    """Find links with the same words that lead to different places, unless the words around them tell them apart."""
    seen: dict[tuple[Element | None, str, str], str] = {}
    for one in page.root.all("a"):
        if "href" not in one.attrs:
            continue
        name = page.name(one)
        if not re.search(r"[^\W\d_]", name):
            yield f"a link without words: {name!r} {one}"
        around = next((read(above) for above in one.around() if above.tag in AROUND), "")
        inside = next((above for above in one.around() if _landmark(page, above)), None)
        place = (inside, name.casefold(), tidy(around))
        if seen.setdefault(place, one.attrs["href"]) != one.attrs["href"]:
            yield f"{name!r} leads to {seen[place]} and to {one.attrs['href']}"


def _buttons(page: Page) -> Iterator[str]:
    seen: dict[str, str] = {}
    for one in page.root.all("button"):
        name = page.name(one)
        if not re.search(r"[^\W_]", name):
            yield f"a button without words: {one}"
        if one.attrs.get("type", "submit") != "submit" and "data-copy" not in one.attrs:
            continue
        form = next((above for above in one.around() if above.tag == "form"), None)
        if any(above.tag == "fieldset" and "disabled" in above.attrs for above in one.around()):
            continue
        if form is None and "data-copy" not in one.attrs:
            continue
        does = one.attrs.get("formaction") or (form.attrs.get("action", "") if form else "")
        does += "?" + "".join(one.attrs.get(each, "") for each in ("name", "value", "data-copy"))
        if seen.setdefault(name, does) != does:
            yield f"two buttons {name!r} do different things: {seen[name]} and {does}"


def _tables(page: Page) -> Iterator[str]:
    for one in page.root.all("table"):
        scrolls = one.parent is not None and one.parent.role == "region" and page.name(one.parent)
        if not page.name(one) and not scrolls:
            yield f"a table without a name: {one} {tidy(read(one))[:60]!r}"
        for cell in one.all("th"):
            if not page.name(cell):
                yield f"a table's header without words: {page.name(one)}"
            if "scope" not in cell.attrs:
                yield f"a table's header without scope: {page.name(cell)}"


def _pictures(page: Page) -> Iterator[str]:
    for one in page.root.all("svg", "img"):
        if one.role not in ("presentation", "none") and not page.name(one):
            yield f"a picture without words: {one} in {one.parent}"


def _fields(page: Page) -> Iterator[str]:
    for one in page.root.all("input", "select", "textarea"):
        if one.attrs.get("type") == "hidden":
            continue
        if not page.name(one):
            yield f"a field without a label: {one} {one.attrs.get('name', '')}"
        if one.attrs.get("aria-invalid") == "true" and "aria-describedby" not in one.attrs:
            yield f"what is wrong with it is not tied to the field {page.name(one)}"


def _errors(page: Page) -> Iterator[str]:
    """Find errors that are neither announced with the page nor described at their field."""
    described = {name for one in page.root.all() for name in one.attrs.get("aria-describedby", "").split()}
    for one in page.root.all():
        if "field-error" not in one.attrs.get("class", "").split() or one.attrs.get("id") in described:
            continue
        if not any(each.role in ("alert", "status") for each in (one, *one.around())):
            yield f"an error that nothing tells of: {tidy(read(one))[:80]!r}"


def _references(page: Page) -> Iterator[str]:
    for one in page.root.all():
        for attr in ("aria-labelledby", "aria-describedby", "aria-controls"):
            for name in one.attrs.get(attr, "").split():
                if name not in page.ids:
                    yield f"{one} names {name}, which is not there"


def _words_apart(page: Page) -> Iterator[str]:
    """Find words that run together across elements, such as `rejected3`."""
    for one in page.root.all("a", "button", "summary", "td", "th", "li", "p", "dd", "legend", "label", *HEADINGS):
        pieces = [piece for piece in _pieces(one) if piece]
        for before, after in pairwise(pieces):
            if re.search(r"\w\Z", before) and re.match(r"\w", after):
                yield f"words run together: {tidy(before)!r} and {tidy(after)!r} in {one}"


CHECKS: tuple[Callable[[Page], Iterator[str]], ...] = (
    _headings,
    _landmarks,
    _links,
    _buttons,
    _tables,
    _pictures,
    _fields,
    _errors,
    _references,
    _words_apart,
)
