"""The pages that the shell leads to, in their groups: one table for the menu, the keys and the list of keys."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.urls import reverse

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who


@dataclass(frozen=True, slots=True)
class Page:
    """`name` of its address; `key` follows `g`; `sections`: the first parts of the addresses that belong to it."""

    name: str
    label: str
    icon: str
    key: str
    sections: tuple[str, ...]
    least: Role = Role.VIEWER


@dataclass(frozen=True, slots=True)
class Group:
    """`label` is empty for what belongs to no group."""

    label: str
    pages: tuple[Page, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A page in the menu of somebody."""

    page: Page
    href: str


GROUPS = (
    Group(
        "Watch",
        (
            Page("overview", "Overview", "overview", "o", ("",)),
            Page("handoffs", "Handoffs", "handoffs", "h", ("handoffs",)),
            Page("groups", "Findings", "findings", "f", ("groups",)),
            Page("traces", "Traces", "traces", "t", ("traces",)),
            Page("agents", "Agents", "agents", "a", ("agents", "declared")),
        ),
    ),
    Group(
        "Decide",
        (Page("review", "Review", "review", "r", ("review",)),),
    ),
    Group(
        "Demand",
        (
            Page("strictness", "Strictness", "strictness", "s", ("strictness",)),
            Page("rules", "Rules", "rules", "u", ("rules",)),
            Page("schemas", "Schemas", "schemas", "c", ("schemas",)),
            Page("prompts", "Prompts", "prompts", "p", ("prompts",)),
        ),
    ),
    Group(
        "Understand",
        (
            Page("diagnostics", "Diagnostics", "diagnostics", "d", ("diagnostics",)),
            Page("help", "Help", "help", "l", ("help",)),
        ),
    ),
    Group(
        "",
        (
            Page(
                "settings", "Settings", "settings", "e", ("settings", "thresholds", "retention", "gallery"), Role.ADMIN
            ),
        ),
    ),
)


def menu(who: Who) -> Sequence[tuple[str, Sequence[Link]]]:
    """The groups with what this person may open."""
    return _menu(who.tenant.slug, tuple(page for group in GROUPS for page in group.pages if who.may(page.least)))


@lru_cache(maxsize=256)
def _menu(slug: str, allowed: Collection[Page]) -> Sequence[tuple[str, Sequence[Link]]]:
    groups = [
        (group.label, [Link(page, _address(page, slug)) for page in group.pages if page in allowed]) for group in GROUPS
    ]
    return [(label, links) for label, links in groups if links]


def _address(page: Page, slug: str) -> str:
    return reverse(f"dashboard:{page.name}", args=[slug])
