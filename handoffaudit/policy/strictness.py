"""The strictness table: its rows as plain values (JSON, forms) and as frozen values, and the default table."""

import difflib
import itertools
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Any

from handoffaudit.policy import values
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.values import MOST_ERRORS, Wrong, brief
from handoffaudit.validation.config import (
    ANY_OTHER_TYPE,
    OPTIONAL_LAYERS,
    CircularPolicy,
    CritiquePolicy,
    EvidencePolicy,
    FailMode,
    GroundingPolicy,
    Mode,
    Strictness,
    TypePolicy,
)
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.prompts.question import Role

MOST_ROWS = 500

RANGES: dict[str, tuple[int, int]] = {
    "token_budget": (1, 1_000_000),
    "output_token_budget": (1, 1_000_000),
    "approval_length": (1, 1000),
    "recommended_length": (1, 1000),
    "max_retries": (0, 100),
    "max_re_retrievals": (0, 100),
    "hold_limit_hours": (1, 8760),
    "careful_above": (0, 1_000_000),
}

CHOICES: dict[str, type[StrEnum]] = {
    "strictness": Strictness,
    "mode": Mode,
    "circular_policy": CircularPolicy,
    "evidence": EvidencePolicy,
    "grounding": GroundingPolicy,
    "min_severity_to_remediate": Severity,
    "fail_mode": FailMode,
    "critique": CritiquePolicy,
    "critique_model": Role,
}

SHARES = ("max_uncited_ratio", "confidence_floor", "objective_confidence", "critique_score_floor", "critique_threshold")

AMOUNTS: dict[str, tuple[float, float]] = {"critique_notional_usd": (0, 1e12), "critique_max_usd": (0, 100)}

SWITCHES = ("repair", "auto_escalate_on_critical", "four_eyes")

FIELDS = (
    "handoff_type",
    "strictness",
    "mode",
    "layers",
    "token_budget",
    "output_token_budget",
    "approval_length",
    "recommended_length",
    "circular_policy",
    "evidence",
    "max_uncited_ratio",
    "grounding",
    "confidence_floor",
    "repair",
    "max_retries",
    "max_re_retrievals",
    "auto_escalate_on_critical",
    "min_severity_to_remediate",
    "hold_limit_hours",
    "four_eyes",
    "fail_mode",
    "objective_confidence",
    "careful_above",
    "critique",
    "critique_notional_usd",
    "critique_score_floor",
    "critique_model",
    "critique_max_usd",
    "critique_threshold",
)


def to_plain(row: TypePolicy) -> dict[str, Any]:
    """Return the row as JSON values, in the order of `FIELDS`."""
    layers = {layer: layer not in row.layers_off for layer in OPTIONAL_LAYERS}
    return {field: layers if field == "layers" else _plain(getattr(row, field)) for field in FIELDS}


def parse_row(given: Mapping[str, Any]) -> TypePolicy:
    """Parse a row; a field that is not given has its default. Raise `InvalidPolicy` with every invalid value."""
    row = values.row_name(given.get("handoff_type"))
    unknown = itertools.islice((field for field in given if field not in FIELDS), MOST_ERRORS)
    errors = [_unknown(row, field[: values.LONGEST_NAME], given[field]) for field in unknown]
    found: dict[str, Any] = {}
    for field in FIELDS:
        if field not in given and field != "handoff_type":
            continue
        try:
            found[field] = _READ[field](given.get(field))
        except Wrong as wrong:
            errors.append(PolicyError(row, field, given.get(field), wrong.message, wrong.remedy))
    if errors:
        raise InvalidPolicy(errors)
    if "output_token_budget" not in given and "token_budget" in found:
        # A table that was saved before output budgets existed still judges outputs by its token budget.
        found["output_token_budget"] = found["token_budget"]
    found["layers_off"] = found.pop("layers", frozenset())
    return TypePolicy(**found)


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[TypePolicy, ...]:
    """Parse a whole table, with rows given as `to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_table(values.read_all(given, parse_row))


def check_table(rows: Iterable[TypePolicy]) -> tuple[TypePolicy, ...]:
    """Return the rows by type, with "any other type" last.

    Raise `InvalidPolicy` for repeated types, too many rows, or a missing row for any other type.
    """
    table = sorted(rows, key=lambda row: (row.handoff_type == ANY_OTHER_TYPE, row.handoff_type))
    types = [row.handoff_type for row in table]
    errors = values.find_repeated(types, "type")
    if ANY_OTHER_TYPE not in types:
        remedy = f'Add a row with the handoff_type "{ANY_OTHER_TYPE}".'
        errors.append(PolicyError(ANY_OTHER_TYPE, "", None, "The row for any other type is missing.", remedy))
    if len(table) > MOST_ROWS:
        remedy = f"Keep at most {MOST_ROWS}; what has no row follows the row for any other type."
        errors.append(PolicyError(ANY_OTHER_TYPE, "", len(table), f"There are {len(table)} rows.", remedy))
    if errors:
        raise InvalidPolicy(errors)
    return tuple(table)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, StrEnum) else value


def _unknown(row: str, field: str, value: Any) -> PolicyError:
    close = difflib.get_close_matches(field, FIELDS, n=1)
    remedy = f'Did you mean "{close[0]}"?' if close else f"The fields are {', '.join(FIELDS)}."
    return PolicyError(row, field, value, "There is no such field.", remedy)


def _layers(value: Any) -> frozenset[str]:
    names = ", ".join(OPTIONAL_LAYERS)
    if not isinstance(value, Mapping):
        raise Wrong(f"{brief(value)} is not an object.", f'Write {{"tokens": true, …}} with any of {names}.')
    for layer, on in value.items():
        if layer not in OPTIONAL_LAYERS:
            raise Wrong(f"{brief(layer)} cannot be switched.", f"The layers that can be are {names}.")
        if not isinstance(on, bool):
            raise Wrong(f"{layer} is {brief(on)}.", "Write true or false.")
    return frozenset(layer for layer, on in value.items() if not on)


_READ: dict[str, Callable[[Any], Any]] = {
    "handoff_type": values.handoff_type,
    "layers": _layers,
    **{field: partial(values.choice, choices) for field, choices in CHOICES.items()},
    **{field: partial(values.whole, low, high) for field, (low, high) in RANGES.items()},
    **{field: partial(values.amount, low, high) for field, (low, high) in AMOUNTS.items()},
    **dict.fromkeys(SHARES, values.share),
    **dict.fromkeys(SWITCHES, values.switch),
}

ROWS_AS_SHIPPED = check_table(
    [
        TypePolicy("deal_data"),
        TypePolicy("customer_info"),
        TypePolicy("research_result"),
        # One agent writes to another in these types: reports of some ten thousand characters are common.
        TypePolicy("delegation", token_budget=20_000),
        TypePolicy("handoff", token_budget=20_000),
        TypePolicy("message", token_budget=20_000),
        TypePolicy("status_update", strictness=Strictness.LENIENT),
        TypePolicy("notification", strictness=Strictness.LENIENT),
        TypePolicy(ANY_OTHER_TYPE),
    ]
)
