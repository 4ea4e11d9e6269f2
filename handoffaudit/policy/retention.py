"""Retention rules: how many days each kind of data is kept. Without a number of days, data is kept forever."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, PlainValidator, ValidationInfo

from handoffaudit.policy import values
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.values import Wrong, explain_whole, is_whole
from handoffaudit.validation.config import describe


class Data(StrEnum):
    """The kinds of data that can be removed once they are old."""

    LOGS = "logs"
    FILE_REPORTS = "file_reports"
    HOOK_EVENTS = "hook_events"
    MODEL_CALLS = "model_calls"
    DELIVERIES = "deliveries"
    DOCUMENTS = "documents"


@dataclass(frozen=True, slots=True)
class KindText:
    """The labels of a kind of data; `one` and `many` are its singular and plural."""

    title: str
    what: str
    one: str
    many: str


KIND_TEXTS: Final = {
    Data.LOGS: KindText(
        "Log lines",
        "Log lines as they were sent, also lines in no known format. The list of imports and all counts stay, "
        "and the same lines sent again are not counted again.",
        "line",
        "lines",
    ),
    Data.FILE_REPORTS: KindText(
        "Reports of handoff files",
        "What was found where an agent's handoff file was expected, by the time that a report is about. Counts stay, "
        "and so does the handoff that it arrived as.",
        "report",
        "reports",
    ),
    Data.HOOK_EVENTS: KindText(
        "Hook events",
        "What the gate was asked by agent hosts, its answers, and the validation states of phases. An event that is "
        "sent again after that is a new one.",
        "event",
        "events",
    ),
    Data.MODEL_CALLS: KindText(
        "Calls to the model",
        "The record of each call: outcome, tokens, cost, time. The spending per day stays.",
        "call",
        "calls",
    ),
    Data.DELIVERIES: KindText(
        "Deliveries",
        "What was sent to webhooks and by e-mail, with its payload. What is still to be delivered stays.",
        "delivery",
        "deliveries",
    ),
    Data.DOCUMENTS: KindText(
        "Documents of handoffs",
        "What was sent: document, context and evidence. The handoff, its verdicts, which may quote it, its events and "
        "decisions stay for good, and so does the hash of what was sent. Nothing goes of handoffs that wait, are held, "
        "rejected, not ended or not verified.",
        "document",
        "documents",
    ),
}


@dataclass(frozen=True, slots=True)
class Retention:
    """A retention rule; `days` is None if the data is kept forever."""

    name: Data = field(metadata=describe("Name", "The kind of data."))
    days: int | None = field(default=None, metadata=describe("Keep for days", "The days to keep it; null: forever."))


# Before retention rules existed, only webhook deliveries were removed, after 14 days. Other data is removed only if
# somebody sets a rule.
AS_SHIPPED: Final = tuple(Retention(data, 14 if data is Data.DELIVERIES else None) for data in Data)
# LLM calls are kept for a day more than the longest period over which Diagnostics counts them. Deliveries are kept
# longer than the time for which alerts are checked again, or an alert would be delivered a second time.
LEAST: Final[dict[Data, int]] = dict.fromkeys(Data, 1) | {Data.MODEL_CALLS: 8, Data.DELIVERIES: 8}
MOST: Final = 3650


def _parse_days(value: Any, row: ValidationInfo) -> int | None:
    least = LEAST[row.data["name"]]
    if value is None or (is_whole(value) and least <= value <= MOST):
        return None if value is None else int(value)
    wrong = explain_whole(value, least, MOST)
    raise Wrong(wrong.message, f"{wrong.remedy} Leave the number out to keep the data forever.")


RetentionModel = values.model_of(
    "RetentionModel",
    Retention,
    days=Annotated[
        int | None,
        PlainValidator(_parse_days, json_schema_input_type=Annotated[int, Field(ge=1, le=MOST)] | None),
    ],
)


def parse_row(given: Mapping[str, Any]) -> Retention:
    """Parse a row; without days, the data is kept forever. Raise `InvalidPolicy` with every invalid value."""
    name = values.row_name(given.get("name"))
    if name not in tuple(Data):
        problem, remedy = "There is no such kind of data.", f"Use one of {', '.join(Data)}."
        raise InvalidPolicy([PolicyError(name, "name", given.get("name"), problem, remedy)])
    return Retention(**values.read_row(RetentionModel, name, given))


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[Retention, ...]:
    """Parse all rows, given as `values.to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, parse_row))


def check_rows(rows: Iterable[Retention]) -> tuple[Retention, ...]:
    """Return the rows in the order of `Data`, with the default for each missing row.

    Raise `InvalidPolicy` if a row is given twice.
    """
    table = list(rows)
    errors = values.find_repeated((row.name.value for row in table), "kind of data")
    if errors:
        raise InvalidPolicy(errors)
    by_name = {row.name: row for row in (*AS_SHIPPED, *table)}
    return tuple(by_name[name] for name in Data)
