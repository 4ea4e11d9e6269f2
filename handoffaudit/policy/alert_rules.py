"""Alert rules: a warning level and an alert level for each watched number."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from handoffaudit.policy import values
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.values import Wrong, brief


class Watched(StrEnum):
    """What an alert rule watches.

    The rejection rate is the share of rejected handoffs among the judged ones. The queue age is the number of seconds
    that the oldest unjudged handoff has waited. The others are the number of unverified handoffs and the number of
    overdue holds.
    """

    REJECTION_RATE = "rejection_rate"
    QUEUE_AGE = "queue_age"
    FAIL_OPEN = "fail_open"
    OVERDUE_HOLDS = "overdue_holds"


class NoData(StrEnum):
    """What it means that no handoff, or too few, came within the window of an alert rule.

    `ok`: nothing is wrong. `keep`: an alert stays as it is. `alert`: people are alerted that no handoff came; too few
    handoffs are then treated as `keep`.
    """

    OK = "ok"
    KEEP = "keep"
    ALERT = "alert"


@dataclass(frozen=True, slots=True)
class AlertRule:
    """The levels and times of the alerts about one watched number.

    `warning` and `alert` are the values from which on a level applies, in the unit of what is watched. `window_minutes`
    says which handoffs count, by the time of receipt. `minimum` is the number of handoffs below which no rate is
    computed. `clear_minutes`: an alert is resolved when the value was below the levels for so long. `renotify_minutes`:
    while an alert is active, webhooks are notified again at this interval.
    """

    name: Watched
    on: bool
    warning: float
    alert: float
    window_minutes: int = 60
    minimum: int = 20
    no_data: NoData = NoData.OK
    clear_minutes: int = 10
    renotify_minutes: int = 240


# Only its owner knows which share of rejected handoffs is high, and whether there is an LLM to ask: these rules are off
# by default.
AS_SHIPPED: Final = (
    AlertRule(Watched.REJECTION_RATE, on=False, warning=0.5, alert=0.8),
    AlertRule(Watched.QUEUE_AGE, on=True, warning=300, alert=900),
    AlertRule(Watched.FAIL_OPEN, on=False, warning=20, alert=100),
    AlertRule(Watched.OVERDUE_HOLDS, on=True, warning=10, alert=50),
)

FIELDS: Final = (
    *("name", "on", "warning", "alert", "window_minutes", "minimum", "no_data", "clear_minutes", "renotify_minutes"),
)

WHOLE: Final[dict[str, tuple[int, int]]] = {
    "window_minutes": (5, 1440),
    "minimum": (1, 100_000),
    "clear_minutes": (0, 1440),
    "renotify_minutes": (10, 10_080),
}

# The lowest and the highest level that can be entered for each.
LEVELS: Final[dict[Watched, tuple[float, float]]] = {
    Watched.REJECTION_RATE: (0.01, 1),
    Watched.QUEUE_AGE: (10, 86_400),
    Watched.FAIL_OPEN: (1, 10_000),
    Watched.OVERDUE_HOLDS: (1, 10_000),
}


def to_plain(row: AlertRule) -> dict[str, Any]:
    """Return the row as JSON values, in the order of `FIELDS`."""
    return {field: getattr(row, field) for field in FIELDS} | {"name": row.name.value, "no_data": row.no_data.value}


def parse_row(given: Mapping[str, Any]) -> AlertRule:
    """Parse a row; a field that is not given has its default. Raise `InvalidPolicy` with every invalid value."""
    name = values.row_name(given.get("name"))
    shipped = next((row for row in AS_SHIPPED if row.name == given.get("name")), None)
    if shipped is None:
        told, remedy = "Nothing of that name is watched.", f"Use one of {', '.join(Watched)}."
        raise InvalidPolicy([PolicyError(name, "name", given.get("name"), told, remedy)])
    errors = values.unknown_fields(name, given, FIELDS, f"The fields are {', '.join(FIELDS)}.")
    found: dict[str, Any] = to_plain(shipped) | {"name": shipped.name, "no_data": shipped.no_data}
    for field, read in _readers(shipped.name).items():
        if field in given:
            try:
                found[field] = read(given[field])
            except Wrong as wrong:
                errors.append(PolicyError(name, field, given[field], wrong.message, wrong.remedy))
    if not errors and found["warning"] > found["alert"]:
        message = f"It is below the warning level, {found['warning']:g}."
        errors.append(PolicyError(name, "alert", found["alert"], message, "Set it to that or more."))
    if errors:
        raise InvalidPolicy(errors)
    return AlertRule(**found)


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[AlertRule, ...]:
    """Parse all rows, given as `to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, parse_row))


def check_rows(rows: Iterable[AlertRule]) -> tuple[AlertRule, ...]:
    """Return the rows in the order of `Watched`, with the default for those not given.

    Raise `InvalidPolicy` if a row is given twice.
    """
    table = list(rows)
    errors = values.find_repeated((row.name.value for row in table), "threshold")
    if errors:
        raise InvalidPolicy(errors)
    by_name = {row.name: row for row in (*AS_SHIPPED, *table)}
    return tuple(by_name[name] for name in Watched)


def _readers(name: Watched) -> dict[str, Any]:
    whole = {field: partial(values.whole, *bounds) for field, bounds in WHOLE.items()}
    level = partial(_level, name)
    return {"on": values.switch, "warning": level, "alert": level, "no_data": partial(values.choice, NoData), **whole}


def _level(name: Watched, value: Any) -> float:
    low, high = LEVELS[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Wrong(f"{brief(value)} is no level for this.", f"Use a number from {low:g} to {high:,g}.")
    # A level is stored as it is shown: 300 is the same level as 300.0, and no change.
    return int(value) if value == int(value) else value
