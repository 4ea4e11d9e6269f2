"""Policies of agents: declared routes (in forms, lines such as `planner -> critic`), roles, and known agents."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final

import orjson
import structlog
from django.conf import settings
from pydantic import PlainValidator

from handoffaudit.policy import values
from handoffaudit.policy.values import MOST_ERRORS, InvalidPolicy, PolicyError, Wrong, brief
from handoffaudit.validation.agents import AgentRole, discover, skill_files
from handoffaudit.validation.config import ANY_OTHER_TYPE, describe

ANYBODY = ANY_OTHER_TYPE

MOST_ROUTE_ROWS = 500

MOST_TARGETS = 500

_ARROW = re.compile(r"\s*(?:->|→)\s*")

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')

_END_OF_NAME = re.compile(r'[,"]|->|→')

_COMMA = re.compile(r"\s*,\s*")

_NEEDS_QUOTES = re.compile(r'[,"]|->|→')

_WRITE = "Write planner -> critic, writer; quote a name that contains a comma or an arrow."


@dataclass(frozen=True, slots=True)
class DeclaredRoutes:
    """The agents that `source` may hand off to, in alphabetical order, `*` last. `*` is any agent."""

    source: str = field(metadata=describe("Source", "The agent that hands off; * is any agent."))
    targets: tuple[str, ...] = field(
        metadata=describe("Targets", "The agents that the source may hand off to; * is any agent.")
    )


def parse_route_row(given: Mapping[str, Any]) -> DeclaredRoutes:
    """Parse a row. Raise `InvalidPolicy` with every invalid value."""
    return DeclaredRoutes(**values.read_row(DeclaredRoutesModel, values.row_name(given.get("source")), given))


def parse_route_rows(given: Iterable[Mapping[str, Any]]) -> tuple[DeclaredRoutes, ...]:
    """Parse all rows, given as `values.to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_route_rows(values.read_all(given, parse_route_row))


def check_route_rows(rows: Iterable[DeclaredRoutes]) -> tuple[DeclaredRoutes, ...]:
    """Return the rows sorted by source, `*` last.

    Raise `InvalidPolicy` for repeated sources, too many rows, or too much data.
    """
    table = sorted(rows, key=lambda row: (row.source == ANYBODY, row.source))
    return values.check_table(table, "source", MOST_ROUTE_ROWS, attrgetter("source"))


def route_rows_of(routes: Iterable[tuple[str, str]]) -> tuple[DeclaredRoutes, ...]:
    """Return one row for each source among pairs of source and target. Raise `InvalidPolicy` for invalid pairs."""
    targets: dict[str, set[str]] = {}
    for source, target in routes:
        targets.setdefault(source, set()).add(target)
    return parse_route_rows({"source": source, "targets": sorted(found)} for source, found in targets.items())


def routes_to_text(rows: Iterable[DeclaredRoutes]) -> str:
    """Return the rows as text with one line for each row."""
    return "\n".join(f"{_quote(row.source)} -> {', '.join(map(_quote, row.targets))}" for row in rows)


def parse_routes_text(text: str) -> tuple[DeclaredRoutes, ...]:
    """Parse text with one route or more in each line; lines with the same source become one row.

    Raise `InvalidPolicy`. An error in one line names the line. An error in a whole row names its source.
    """
    routes: list[tuple[str, str]] = []
    errors: list[PolicyError] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if len(errors) >= MOST_ERRORS:
            break
        try:
            routes += _parse_routes(line.strip()) if line.strip() else []
        except Wrong as wrong:
            errors.append(PolicyError(f"line {number}", "", line, wrong.message, wrong.remedy))
    if errors:
        raise InvalidPolicy(errors)
    return route_rows_of(routes)


def _parse_routes(line: str) -> list[tuple[str, str]]:
    source, place = _read_name(line, 0)
    arrow = _ARROW.match(line, place)
    if not arrow:
        raise Wrong(f"{brief(line)} has no arrow after its first name.", _WRITE)
    routes = []
    place = arrow.end()
    while True:
        target, place = _read_name(line, place)
        routes.append((source, target))
        if place == len(line):
            return routes
        comma = _COMMA.match(line, place)
        if not comma:
            raise Wrong(f"{brief(line)} goes on after {brief(target)} without a comma.", _WRITE)
        place = comma.end()


def _read_name(line: str, place: int) -> tuple[str, int]:
    """Return the name that begins at that place, and the place where it ends."""
    if quoted := _QUOTED.match(line, place):
        try:
            return parse_name(orjson.loads(quoted[0])), quoted.end()
        except orjson.JSONDecodeError as error:
            raise Wrong(f"{brief(quoted[0])} is not a quoted name that JSON can read.", _WRITE) from error
    end = _END_OF_NAME.search(line, place)
    name = line[place : end.start() if end else None].rstrip()
    if not name or (end and end[0] == '"'):
        raise Wrong(f"{brief(line)} lacks a name.", _WRITE)
    return parse_name(name), place + len(name)


def _quote(name: str) -> str:
    return orjson.dumps(name).decode() if _NEEDS_QUOTES.search(name) else name


def parse_name(value: Any) -> str:
    """Return the name of an agent. Raise `Wrong` for a value that is not a name."""
    if not isinstance(value, str) or not value.strip():
        raise Wrong("An agent needs a name.", "Write the name as senders do, e.g. planner; * is any agent.")
    if len(value) > values.LONGEST_NAME:
        raise Wrong(f"The name has {len(value)} characters.", f"Use at most {values.LONGEST_NAME}.")
    if value != value.strip() or not value.isprintable():
        raise Wrong(f"{brief(value)} begins or ends with a space, or has invisible characters.", "Remove them.")
    return value


def _parse_targets(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise Wrong("A row needs at least one target.", 'Write a list of names, e.g. ["critic", "writer"].')
    if len(value) > MOST_TARGETS:
        raise Wrong(f"There are {len(value)} targets.", f"Name at most {MOST_TARGETS}; * is any agent.")
    return tuple(sorted({parse_name(one) for one in value}, key=lambda name: (name == ANYBODY, name)))


DeclaredRoutesModel = values.model_of(
    "DeclaredRoutesModel",
    DeclaredRoutes,
    source=Annotated[str, PlainValidator(parse_name, json_schema_input_type=str)],
    targets=Annotated[tuple[str, ...], PlainValidator(_parse_targets, json_schema_input_type=list[str])],
)

log = structlog.get_logger(__name__)


@cache
def known_agents() -> frozenset[str] | None:
    """Return the names of the skills in `SKILLS_FOLDER`, or None if no folder is set or no skill in it can be read.

    The folder is read once in a process.
    """
    if settings.SKILLS_FOLDER is None:
        return None
    registry = discover(skill_files(settings.SKILLS_FOLDER))
    for warning in registry.warnings:
        log.warning(warning, folder=str(settings.SKILLS_FOLDER))
    if not registry.names:
        log.warning("No skill found: targets are not looked up.", folder=str(settings.SKILLS_FOLDER))
    return registry.names or None


MOST_ROLE_ROWS: Final = 1_000
LONGEST_ACTOR: Final = 200


@dataclass(frozen=True, slots=True)
class DeclaredRole:
    """The declared role of an agent. `declared_at` is in ISO 8601, and empty where nobody recorded the time."""

    agent: str = field(metadata=describe("Agent", "The agent's name in handoffs."))
    role: AgentRole = field(
        metadata=describe(
            "Role",
            "A worker's claims are judged. The facts that an observer (a tool, browser, terminal or file reader) or a "
            "person brings are evidence for the trace.",
        )
    )
    declared_by: str = field(default="", metadata=describe("Declared by", "Who declared the role."))
    declared_at: str = field(default="", metadata=describe("Declared at", "When the role was declared."))


def declare_role(agent: str, role: str, actor: str, now: datetime) -> DeclaredRole:
    """Return the row of a role that `actor` declares. Raise `InvalidPolicy` with every invalid value."""
    row = parse_role_row({"agent": agent, "role": role})
    return replace(
        row, declared_by=actor[:LONGEST_ACTOR], declared_at=now.astimezone(UTC).isoformat(timespec="seconds")
    )


def parse_role_row(given: Mapping[str, Any]) -> DeclaredRole:
    """Parse a row. Raise `InvalidPolicy` with every invalid value."""
    return DeclaredRole(**values.read_row(DeclaredRoleModel, values.row_name(given.get("agent")), given))


def parse_role_rows(given: Iterable[Mapping[str, Any]]) -> tuple[DeclaredRole, ...]:
    """Parse all rows, given as `values.to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return _check_role_table(values.read_all(given, parse_role_row))


def check_role_rows(rows: Iterable[DeclaredRole]) -> tuple[DeclaredRole, ...]:
    """Return the rows to save, sorted by agent. Raise `InvalidPolicy` for an invalid table, or for a role of `*`."""
    table = _check_role_table(rows)
    if any(row.agent == ANYBODY for row in table):
        remedy = "Declare the role of each agent by its name; without a declaration, the role is guessed."
        raise InvalidPolicy([PolicyError(ANYBODY, "agent", ANYBODY, "A role is for one agent, not for any.", remedy)])
    return table


def _check_role_table(rows: Iterable[DeclaredRole]) -> tuple[DeclaredRole, ...]:
    """Return the rows sorted by agent. Raise `InvalidPolicy` for repeated agents, too many rows, or too much data."""
    table = sorted(rows, key=lambda row: row.agent)
    errors = values.find_repeated((row.agent for row in table), "agent")
    errors.extend(values.too_many([row.agent for row in table], MOST_ROLE_ROWS))
    errors.extend(values.too_large({row.agent: values.to_plain(row) for row in table}))
    if errors:
        raise InvalidPolicy(errors)
    return tuple(table)


def role_to_comparable(row: DeclaredRole) -> dict[str, Any]:
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
