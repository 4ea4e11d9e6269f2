"""Declared roles of agents. An agent without a row has the role that its handoffs suggest."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import PlainValidator

from handoffaudit.policy import values
from handoffaudit.policy.agents import parse_name
from handoffaudit.policy.values import InvalidPolicy, Wrong, brief
from handoffaudit.validation.agents import AgentRole
from handoffaudit.validation.config import describe

MOST_ROWS: Final = 1_000
LONGEST_ACTOR: Final = 200


@dataclass(frozen=True, slots=True)
class DeclaredRole:
    """The declared role of an agent. `declared_at` is in ISO 8601, and empty where nobody recorded the time."""

    agent: str = field(metadata=describe("Agent", "The agent's name in handoffs."))
    role: AgentRole = field(
        metadata=describe(
            "Role",
            "A worker's claims are judged. What an observer (a tool, browser, terminal or file reader) or a person "
            "brings is evidence of the trace.",
        )
    )
    declared_by: str = field(default="", metadata=describe("Declared by", "Who declared the role."))
    declared_at: str = field(default="", metadata=describe("Declared at", "When the role was declared."))


def declare(agent: str, role: str, actor: str, now: datetime) -> DeclaredRole:
    """Return the row of a role that `actor` declares. Raise `InvalidPolicy` with every invalid value."""
    row = parse_row({"agent": agent, "role": role})
    return replace(
        row, declared_by=actor[:LONGEST_ACTOR], declared_at=now.astimezone(UTC).isoformat(timespec="seconds")
    )


def parse_row(given: Mapping[str, Any]) -> DeclaredRole:
    """Parse a row. Raise `InvalidPolicy` with every invalid value."""
    return DeclaredRole(**values.read_row(DeclaredRoleModel, values.row_name(given.get("agent")), given))


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[DeclaredRole, ...]:
    """Parse all rows, given as `values.to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, parse_row))


def check_rows(rows: Iterable[DeclaredRole]) -> tuple[DeclaredRole, ...]:
    """Return the rows by agent. Raise `InvalidPolicy` for repeated agents, too many rows, or too much data."""
    table = sorted(rows, key=lambda row: row.agent)
    errors = values.find_repeated((row.agent for row in table), "agent")
    errors.extend(values.too_many([row.agent for row in table], MOST_ROWS))
    errors.extend(values.too_large({row.agent: values.to_plain(row) for row in table}))
    if errors:
        raise InvalidPolicy(errors)
    return tuple(table)


def to_comparable(row: DeclaredRole) -> dict[str, Any]:
    """Return the fields that make a difference between two versions."""
    return {"role": row.role.value}


def _short_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_ACTOR or not (value == "" or value.isprintable()):
        raise Wrong(f"{brief(value)} is not a short text.", "Leave the field out: the server sets it.")
    return value


_Short = Annotated[str, PlainValidator(_short_text, json_schema_input_type=str)]

DeclaredRoleModel = values.model_of(
    "DeclaredRoleModel",
    DeclaredRole,
    agent=Annotated[str, PlainValidator(parse_name, json_schema_input_type=str)],
    declared_by=_Short,
    declared_at=_Short,
)
