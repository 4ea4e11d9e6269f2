"""Alert rules: a warning level and an alert level for each watched number."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple

from pydantic import PlainValidator, ValidationInfo

from handoffaudit.policy import values
from handoffaudit.policy.values import InvalidPolicy, PolicyError, Wrong, brief
from handoffaudit.validation.config import describe


class Watched(StrEnum):
    """The numbers that alert rules watch.

    `rejection_rate`: the share of rejected and declined handoffs among the judged handoffs of the window. `queue_age`:
    the seconds that the oldest unjudged handoff has waited. `fail_open`: the number of handoffs of the window that were
    accepted unverified and not checked since. `overdue_holds`: the number of overdue held handoffs.
    """

    REJECTION_RATE = "rejection_rate"
    QUEUE_AGE = "queue_age"
    FAIL_OPEN = "fail_open"
    OVERDUE_HOLDS = "overdue_holds"


class NoData(StrEnum):
    """The effect on an alert if no handoff, or too few, came in the window of its rule.

    `ok`: nothing is wrong. `keep`: an alert stays as it is. `alert`: a separate alert says that no handoff
    came, unless the tenant never had a handoff. If too few handoffs came, `alert` has the effect of `keep`.
    """

    OK = "ok"
    KEEP = "keep"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """The levels and times of the alerts about one watched number.

    `warning` and `alert` are in the unit of the watched number (`LEVELS`). While an alert is active, webhooks are
    notified again every `renotify_minutes`.
    """

    name: Watched = field(metadata=describe("Name", "The watched number."))
    on: bool = field(metadata=describe("Enabled", ""))
    warning: float = field(metadata=describe("Warning from", "the lowest value that opens a warning"))
    alert: float = field(metadata=describe("Alert from", "the lowest value that opens an alert"))
    window_minutes: int = field(
        default=60,
        metadata=describe("Window", "minutes, {limits}; counts handoffs received in this time", ge=5, le=1440),
    )
    minimum: int = field(
        default=20,
        metadata=describe(
            "At least", "judged handoffs in the window; with fewer, no rate is computed", ge=1, le=100_000
        ),
    )
    no_data: NoData = field(
        default=NoData.OK,
        metadata=describe("No handoffs", "the effect if no handoffs came in the window, or too few for a rate"),
    )
    clear_minutes: int = field(
        default=10, metadata=describe("Close after", "minutes below the warning level, {limits}", ge=0, le=1440)
    )
    renotify_minutes: int = field(
        default=240, metadata=describe("Repeat every", "minutes while the alert is active, {limits}", ge=10, le=10_080)
    )


# The rules for the rejection rate and for failing open are off by default. Only the tenant knows which rejection rate
# is high, and whether an LLM is configured.
AS_SHIPPED: Final = (
    AlertRule(Watched.REJECTION_RATE, on=False, warning=0.5, alert=0.8),
    AlertRule(Watched.QUEUE_AGE, on=True, warning=300, alert=900),
    AlertRule(Watched.FAIL_OPEN, on=False, warning=20, alert=100),
    AlertRule(Watched.OVERDUE_HOLDS, on=True, warning=10, alert=50),
)


class Levels(NamedTuple):
    """The lowest and the highest level that can be entered for a watched number, and their unit."""

    low: float
    high: float
    unit: str = ""

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.unit, f"{self.low:,} to {self.high:,}")))


LEVELS: Final[dict[Watched, Levels]] = {
    Watched.REJECTION_RATE: Levels(0.01, 1.0, "as a share: 0.5 is 50 %"),
    Watched.QUEUE_AGE: Levels(10, 86_400, "seconds"),
    Watched.FAIL_OPEN: Levels(1, 10_000, "handoffs"),
    Watched.OVERDUE_HOLDS: Levels(1, 10_000, "handoffs"),
}


def _parse_level(value: Any, row: ValidationInfo) -> float:
    low, high, _ = LEVELS[row.data["name"]]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Wrong(f"{brief(value)} is not a valid level.", f"Use a number from {low:g} to {high:,g}.")
    # Without the conversion, a form that shows 300 for a stored 300.0 would save a change.
    return int(value) if value == int(value) else value


Level = Annotated[float, PlainValidator(_parse_level, json_schema_input_type=float)]
AlertRuleModel = values.model_of("AlertRuleModel", AlertRule, warning=Level, alert=Level)


def parse_row(given: Mapping[str, Any]) -> AlertRule:
    """Parse a row; a missing field gets its default. Raise `InvalidPolicy` with every invalid value."""
    name = values.row_name(given.get("name"))
    shipped = next((row for row in AS_SHIPPED if row.name == given.get("name")), None)
    if shipped is None:
        problem, remedy = "There is no alert rule of that name.", f"Use one of {', '.join(Watched)}."
        raise InvalidPolicy([PolicyError(name, "name", given.get("name"), problem, remedy)])
    found = AlertRule(**values.read_row(AlertRuleModel, name, {**values.to_plain(shipped), **given}))
    if found.warning > found.alert:
        message = f"The alert level is below the warning level, {found.warning:g}."
        raise InvalidPolicy([PolicyError(name, "alert", found.alert, message, "Use the warning level or more.")])
    return found


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[AlertRule, ...]:
    """Parse all rows, given as `values.to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, parse_row))


def check_rows(rows: Iterable[AlertRule]) -> tuple[AlertRule, ...]:
    """Return the rows in the order of `Watched`, with the default for each missing row.

    Raise `InvalidPolicy` if a row is given twice.
    """
    return values.complete_table(rows, "alert rule", AS_SHIPPED, attrgetter("name.value"))
