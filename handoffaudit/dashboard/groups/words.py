"""What pages say of groups."""

from dataclasses import dataclass

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.diagnostics.groups import queries
from handoffaudit.diagnostics.groups.mutes import FIFTH, FOR_GOOD, UNTIL
from handoffaudit.diagnostics.groups.queries import ListedGroup
from handoffaudit.diagnostics.groups.stats import WEEK
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.drawing.charts import sparkline
from handoffaudit.drawing.svg import Drawing

STATUS_NAMES = {"open": "Open", "regressed": "Regressed", "muted": "Muted", "all": "Any status"}
SORT_NAMES = {
    "newest": "Seen last",
    "most": "Most handoffs",
    "growing": "Growing most",
    "waiting": "Most waiting for review",
}
# Each sign with its tone and its icon: a shape and a word, and not only a colour.
SIGNS = {
    "regressed": ("regressed", "bad", "warning", "It was muted, and has grown since"),
    "muted": ("muted", "quiet", "skipped", "It counts as noise until it grows"),
    "new": ("new", "wait", "info", "Seen first within the last 24 hours"),
    "growing": ("growing", "wait", "diagnostics", "The last 7 days have at least half as many again as the 7 before"),
}
_UNTIL_NAMES = {
    FIFTH: "a fifth more, at least 10",
    "10": "10 more",
    "50": "50 more",
    "double": "twice as many",
    FOR_GOOD: "never: for good",
}


@dataclass(frozen=True, slots=True)
class Sign:
    word: str
    tone: str
    icon: str
    what: str


@dataclass(frozen=True, slots=True)
class Line:
    """A group as the list shows it. `lately`: how many handoffs came in the last 7 days."""

    group: FindingGroup
    signs: list[Sign]
    waiting: int
    more_wait: bool
    spark: Drawing
    lately: int


@dataclass(frozen=True, slots=True)
class Until:
    """A choice of how long to mute; `number` is when the group comes back, None for never."""

    name: str
    label: str
    number: int | None


def line(listed: ListedGroup) -> Line:
    spark = sparkline(listed.days, title="Handoffs a day, last 14 days", prefix=f"spark-{listed.group.pk}")
    signs = [Sign(*SIGNS[sign]) for sign in listed.signs]
    return Line(listed.group, signs, listed.waiting, listed.more_wait, spark, sum(listed.days[-WEEK:]))


def group_name(tenant: Tenant, number: str) -> str:
    """What a group is of, in one line; the number of one that is not there."""
    try:
        group = queries.get_group(tenant, int(number))
    except FindingGroup.DoesNotExist:
        return number
    at = f" at {group.path_shape}" if group.path_shape else ""
    return f"{code_title(group.code)}{at}, {group.source_agent_id} → {group.target_agent_id}"


def untils(number: int) -> list[Until]:
    return [Until(name, _UNTIL_NAMES[name], grown(number)) for name, grown in UNTIL.items()]


def muted_words(group: FindingGroup) -> str:
    """Until when a muted group is."""
    if group.muted_until is None:
        return "for good"
    return f"until {group.muted_until:,} handoffs have it"
