"""The views that lists have from the start; nobody can change or delete them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """`pk` stands in addresses, as the number of a saved view does; `why` says in a sentence what it is for."""

    pk: str
    name: str
    query: str
    why: str


ALL: Final = "all"
# As the menu says them.
TITLES: Final = {
    "handoffs": "Handoffs",
    "review": "Review",
    "groups": "Findings",
    "traces": "Traces",
    "logs": "Logs",
}
# What a list is called with nothing left out, where that isn't "All".
EVERYTHING_NAMES: Final = {"groups": "Seen last"}
BUILT_IN: Final[Mapping[str, tuple[BuiltIn, ...]]] = {
    "handoffs": (
        BuiltIn("waiting", "Waiting for a person", "state=held", "Held until somebody decides"),
        BuiltIn("rejected-today", "Rejected today", "state=rejected&since=24h", "Rejected in the last 24 hours"),
        BuiltIn("send-again", "To be sent again", "state=rejected", "Rejected, and no later attempt has come"),
        BuiltIn("would-be-stopped", "Would be stopped", "flag=shadowed", "Let pass in shadow mode only"),
        BuiltIn("unverified", "Unverified", "flag=unverified", "The model's check was due and could not be made"),
        BuiltIn("overdue", "Overdue", "flag=overdue", "Held for longer than the limit of its type"),
    ),
    "groups": (
        BuiltIn("to-review", "Waiting for review", "sort=waiting", "Those with most handoffs that wait for a person"),
        BuiltIn("growing", "Growing", "sort=growing", "More this week than before"),
        BuiltIn("most", "Most handoffs", "sort=most", "The most frequent ones first"),
    ),
    "review": (
        BuiltIn("mine", "Passed to me", "view=mine", "Somebody passed it on to you"),
        BuiltIn("second", "Waiting for a second person", "view=second", "Another proposed it, and you may agree"),
        BuiltIn("proposed", "Proposed by me", "view=proposed", "It waits for somebody besides you"),
        BuiltIn("passed-on", "Passed on", "view=passed_on", "Taken out of the queue with a note"),
        BuiltIn("muted", "Muted", "view=muted", "All that decides is muted"),
    ),
    "traces": (
        BuiltIn("today", "Last 24 hours", "since=24h", "With a handoff of the last 24 hours"),
        BuiltIn("rejected", "With a rejected handoff", "state=rejected", "Where something was stopped"),
        BuiltIn("waiting", "Waiting for a person", "state=held", "Where something waits to be decided"),
    ),
    "logs": (
        BuiltIn("failures", "Health lines", "kind=health", "What agents said of their handoff files"),
        BuiltIn("errors", "Errors", "level=error", "Lines of the level error"),
        BuiltIn("gate", "Gate", "kind=gate", "What a gate decided"),
        BuiltIn("bad", "Lines that can't be read", "kind=bad", "They say why"),
    ),
}


def built_in(page: str, pk: str) -> BuiltIn | None:
    return next((one for one in BUILT_IN[page] if one.pk == pk), None)
