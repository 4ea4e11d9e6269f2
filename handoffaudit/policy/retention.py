"""Retention rules: for how many days each kind of data is kept; without a number of days, forever."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final

from handoffaudit.policy import values
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.values import Wrong


class Data(StrEnum):
    """The kinds of data that can be removed once they are old."""

    LOGS = "logs"
    FILE_REPORTS = "file_reports"
    HOOK_EVENTS = "hook_events"
    MODEL_CALLS = "model_calls"
    DELIVERIES = "deliveries"
    DOCUMENTS = "documents"


@dataclass(frozen=True, slots=True)
class Retention:
    """A retention rule; `days` is None where the data is kept forever."""

    name: Data
    days: int | None = None


# Webhook deliveries were never kept for longer. Other data is only removed if somebody sets a rule.
AS_SHIPPED: Final = tuple(Retention(data, 14 if data is Data.DELIVERIES else None) for data in Data)
# LLM calls: the longest period over which Diagnostics counts them, and a day. Deliveries: longer than the time for
# which alerts are looked at again, or alerts would be delivered a second time.
LEAST: Final[dict[Data, int]] = dict.fromkeys(Data, 1) | {Data.MODEL_CALLS: 8, Data.DELIVERIES: 8}
MOST: Final = 3650
FIELDS: Final = ("name", "days")


def to_plain(row: Retention) -> dict[str, Any]:
    return {"name": row.name.value, "days": row.days}


def parse_row(given: Mapping[str, Any]) -> Retention:
    """Parse a row; without days, the data is kept forever. Raise `InvalidPolicy` with every invalid value."""
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
    """Parse all rows, given as `to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, parse_row))


def check_rows(rows: Iterable[Retention]) -> tuple[Retention, ...]:
    """Return the rows in the order of `Data`, with the default for those not given.

    Raise `InvalidPolicy` if a row is given twice.
    """
    table = list(rows)
    errors = values.find_repeated((row.name.value for row in table), "kind of data")
    if errors:
        raise InvalidPolicy(errors)
    by_name = {row.name: row for row in (*AS_SHIPPED, *table)}
    return tuple(by_name[name] for name in Data)
