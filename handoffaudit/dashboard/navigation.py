"""The pages that the shell leads to, in their groups: one table for the menu, the keys and the list of keys."""

from collections.abc import Sequence
from dataclasses import dataclass

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
            Page("strictness", "Strictness", "strictness", "s", ("strictness", "trials")),
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


def menu(who: Who) -> list[tuple[str, Sequence[Link]]]:
    """The groups with what this person may open."""
    groups = [(group.label, _links(who, group)) for group in GROUPS]
    return [(label, links) for label, links in groups if links]


def _links(who: Who, group: Group) -> list[Link]:
    return [
        Link(page, reverse(f"dashboard:{page.name}", args=[who.tenant.slug]))
        for page in group.pages
        if who.may(page.least)
    ]
