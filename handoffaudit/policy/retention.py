"""For how many days each kind of data is kept; what has no number is kept for good."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from handoffaudit.policy import values
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.values import Wrong


class Data(StrEnum):
    """What can be removed once it is old."""

    LOGS = "logs"
    FILE_REPORTS = "file_reports"
    HOOK_EVENTS = "hook_events"
    MODEL_CALLS = "model_calls"
    DELIVERIES = "deliveries"
    DOCUMENTS = "documents"


@dataclass(frozen=True, slots=True)
class Retention:
    """`days` is None where it is kept for good."""

    name: Data
    days: int | None = None


# What is told to subscribers was never kept for longer; nothing else goes unless somebody says so.
AS_SHIPPED: Final = tuple(Retention(data, 14 if data is Data.DELIVERIES else None) for data in Data)
# Model calls: the longest period that Diagnostics counts them over, and a day. Deliveries: longer than alerts are gone
# over again, or they would be told anew.
LEAST: Final[dict[Data, int]] = dict.fromkeys(Data, 1) | {Data.MODEL_CALLS: 8, Data.DELIVERIES: 8}
MOST: Final = 3650
FIELDS: Final = ("name", "days")


def to_plain(row: Retention) -> dict[str, Any]:
    return {"name": row.name.value, "days": row.days}


def parse_row(given: Mapping[str, Any]) -> Retention:
    """One row; without days it is kept for good. Every wrong field is told in `InvalidPolicy`."""
    name = values.row_name(given.get("name"))
    if name not in tuple(Data):
        told, remedy = "There is no such kind of data.", f"Use one of {', '.join(Data)}."
        raise InvalidPolicy([PolicyError(name, "name", given.get("name"), told, remedy)])
    errors = values.unknown_fields(name, given, FIELDS, f"The fields are {', '.join(FIELDS)}.")
    data, days = Data(name), given.get("days")
    read = partial(values.whole, LEAST[data], MOST)
    try:
        found = None if days is None else read(days)
    except Wrong as wrong:
        errors.append(PolicyError(name, "days", days, wrong.message, f"{wrong.remedy} Without it: for good."))
    if errors:
        raise InvalidPolicy(errors)
    return Retention(data, found)


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[Retention, ...]:
    """All rows, from such as `to_plain` writes."""
    return check_rows(values.read_all(given, parse_row))


def check_rows(rows: Iterable[Retention]) -> tuple[Retention, ...]:
    """Each once, in the order of `Data`; one that is not given is as shipped."""
    table = list(rows)
    errors = values.find_repeated((row.name.value for row in table), "kind of data")
    if errors:
        raise InvalidPolicy(errors)
    by_name = {row.name: row for row in (*AS_SHIPPED, *table)}
    return tuple(by_name[name] for name in Data)
