"""Retention rules: how many days each kind of data is kept. Without a number of days, data is kept forever."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, Final

from pydantic import Field, PlainValidator, ValidationInfo

from handoffaudit.policy import values
from handoffaudit.policy.values import InvalidPolicy, PolicyError, Wrong, explain_whole, is_whole
from handoffaudit.validation.config import describe


class Data(StrEnum):
    """The kinds of data that can be removed once they are old."""

    LOGS = "logs"
    FILE_REPORTS = "file_reports"
    HOOK_EVENTS = "hook_events"
    MODEL_CALLS = "model_calls"
    DELIVERIES = "deliveries"
    TOOL_RESULTS = "tool_results"
    DOCUMENTS = "documents"
    HANDOFFS = "handoffs"
    HOURLY_COUNTS = "hourly_counts"


@dataclass(frozen=True, slots=True)
class KindText:
    """The texts of a kind of data, for the page and for `docs/retention.md`.

    `what` says what is deleted and what stays. `one` and `many` are the singular and plural of an item.
    """

    title: str
    what: str
    one: str
    many: str


KIND_TEXTS: Final = {
    Data.LOGS: KindText(
        "Log lines",
        "The lines of logs, including bad lines. The list of imports and all counts stay, and the same lines "
        "sent again are not counted again.",
        "line",
        "lines",
    ),
    Data.FILE_REPORTS: KindText(
        "Reports of handoff files",
        "The reports on expected handoff files. The time in a report decides how old the report is. The counts and "
        "the handoff of the report stay.",
        "report",
        "reports",
    ),
    Data.HOOK_EVENTS: KindText(
        "Hook events",
        "The events of agent hosts with the gate's answers, the validation states of phases, and the records that link "
        "the events of ended tasks. The handoffs made from them stay. A deleted event that is sent again counts as a "
        "new event.",
        "event",
        "events",
    ),
    Data.MODEL_CALLS: KindText(
        "LLM calls",
        "The record of each call: outcome, tokens, cost, time. The spending per day stays.",
        "call",
        "calls",
    ),
    Data.DELIVERIES: KindText(
        "Deliveries",
        "The requests to webhooks and the e-mails, with their payloads. Deliveries that are still due stay.",
        "delivery",
        "deliveries",
    ),
    Data.TOOL_RESULTS: KindText(
        "Tool results",
        "The results of tools, as the host captured them. Verdicts stay: they quote the words around "
        "each value that was found in a result. A handoff that is judged again later no longer has this evidence.",
        "result",
        "results",
    ),
    Data.DOCUMENTS: KindText(
        "Documents of handoffs",
        "The content of handoffs: document, context and evidence, the facts that they brought into their trace, and "
        "their words in the search. The handoff, its verdicts (which may quote the document), events, decisions, and "
        "the hash and size of the submission stay. A document stays as long as its handoff waits, is held, rejected or "
        "open, or is due for an LLM check. It also stays for a day after a decision.",
        "document",
        "documents",
    ),
    Data.HANDOFFS: KindText(
        "Handoffs",
        "Whole handoffs: document, verdicts, findings, events, decisions, comments, and their places in traces and "
        "groups. The counts stay. A handoff stays as long as it waits, is held or open, or is due for an LLM check. "
        "It also stays for a day after a decision. If the submission of a deleted handoff is sent again, it counts as "
        "a new handoff.",
        "handoff",
        "handoffs",
    ),
    Data.HOURLY_COUNTS: KindText(
        "Hourly counts",
        "The hours of a day are added up into one count for the day, so that no number is lost. Charts and figures of "
        "older periods have whole days (UTC).",
        "hourly count",
        "hourly counts",
    ),
}
# Only these kinds belong to one handoff type, and can have a term for each type.
BY_TYPE: Final = (Data.DOCUMENTS, Data.HANDOFFS)
MOST_TYPES: Final = 100


@dataclass(frozen=True, slots=True)
class Retention:
    """A retention rule; `days` is None if the data is kept forever.

    `types` has other terms for some handoff types, for the kinds in `BY_TYPE`.
    """

    name: Data = field(metadata=describe("Name", "The kind of data."))
    days: int | None = field(
        default=None, metadata=describe("Keep for days", "For how many days the data is kept; null: forever.")
    )
    types: Mapping[str, int | None] = field(
        default_factory=dict,
        metadata=describe("Other terms by type", "Handoff types with other days; null: forever."),
    )

    @property
    def terms(self) -> list[int]:
        """Return the finite terms of the rule, in days. Without any, nothing is deleted."""
        return [days for days in (self.days, *self.types.values()) if days is not None]


FOREVER: Final = "forever"


def to_comparable(row: Retention) -> dict[str, Any]:
    """Return the fields that make a difference between versions.

    In a change, None means that the value is missing. So a type that is kept forever has the text `FOREVER`.
    """
    types = {name: FOREVER if days is None else days for name, days in row.types.items()}
    return values.to_plain(row) | {"types": types}


# Before retention rules existed, only webhook deliveries were removed, after 14 days. Tool results are evidence for
# handoffs of their trace, and traces are short. Other data is removed only if somebody sets a rule.
_DAYS: Final = {Data.DELIVERIES: 14, Data.TOOL_RESULTS: 30}
AS_SHIPPED: Final = tuple(Retention(data, _DAYS.get(data)) for data in Data)
# Pages read hourly counts for this period up to now, and daily counts for earlier times. The period is long enough to
# compare 30 days with the 30 days before.
HOURS_KEPT: Final = timedelta(days=70)
# LLM calls must be kept for a day more than the longest period over which Diagnostics counts them. Deliveries must be
# kept for longer than the dispatch looks back at changes of alerts, or a change would be delivered a second time.
LEAST: Final[dict[Data, int]] = dict.fromkeys(Data, 1) | {
    Data.MODEL_CALLS: 8,
    Data.DELIVERIES: 8,
    Data.HOURLY_COUNTS: HOURS_KEPT.days,
}
MOST: Final = 3650


# The EU AI Act requires logs of high-risk systems to be kept for at least six months (Articles 19 and 26). Six months
# of a year have 181 to 184 days. The product warns below 183, which is half a year, rounded up.
SIX_MONTHS: Final = 183
# Deliveries are copies of events that stay, and hourly counts are added up into days.
_NO_LOGS: Final = frozenset({Data.DELIVERIES, Data.HOURLY_COUNTS})


def warning_of(row: Retention) -> str:
    """Return a warning for logs that are kept for less than six months, or an empty text."""
    if not row.terms or min(row.terms) >= SIX_MONTHS or row.name in _NO_LOGS:
        return ""
    return (
        f"Less than six months ({SIX_MONTHS} days): the EU AI Act requires logs of high-risk AI systems to be kept for"
        " at least six months."
    )


def _parse_days(value: Any, row: ValidationInfo) -> int | None:
    least = LEAST[row.data["name"]]
    if value is None or (is_whole(value) and least <= value <= MOST):
        return None if value is None else int(value)
    wrong = explain_whole(value, least, MOST)
    raise Wrong(wrong.message, f"{wrong.remedy} Leave the number out to keep the data forever.")


def _parse_types(value: Any, row: ValidationInfo) -> dict[str, int | None]:
    if not isinstance(value, Mapping):
        raise Wrong(f"{values.brief(value)} is not a table of types.", 'Write {"research": 30}, or {} for none.')
    if value and row.data["name"] not in BY_TYPE:
        raise Wrong("This kind of data has no handoff type.", f"Only {' and '.join(BY_TYPE)} can have terms by type.")
    if len(value) > MOST_TYPES:
        raise Wrong(f"There are {len(value):,} types.", f"Name at most {MOST_TYPES}.")
    return {values.handoff_type(name): _parse_days(days, row) for name, days in sorted(value.items())}


_Days = Annotated[int, Field(ge=1, le=MOST)] | None
RetentionModel = values.model_of(
    "RetentionModel",
    Retention,
    days=Annotated[
        int | None,
        PlainValidator(_parse_days, json_schema_input_type=_Days),
    ],
    types=Annotated[dict[str, int | None], PlainValidator(_parse_types, json_schema_input_type=dict[str, _Days])],
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
    return values.complete_table(rows, "kind of data", AS_SHIPPED, attrgetter("name.value"))
