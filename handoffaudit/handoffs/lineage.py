"""The history of a handoff: its chain of agents, and the repeats of the same data."""

import uuid
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from django.db import connection

from handoffaudit.handoffs import db
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.layers.base import History
from handoffaudit.validation.layers.chain import TOLERATED_REPEATS

# The largest number of ancestors that are read. A longer chain counts as incomplete.
MOST_ANCESTORS = 200

# The largest number of rows that are read to count the repeats in the traces of a batch.
MOST_REPEATS = 20_000

_TABLE = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API
_HOP_COLUMNS = '"handoff_id", "parent_handoff_id", "source_agent_id", "target_agent_id"'


class Hop(NamedTuple):
    """The fields of an ancestor that the chain needs."""

    handoff_id: str
    parent: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Walk:
    hops: tuple[Hop, ...]
    complete: bool


def load_histories(handoffs: Iterable[Handoff]) -> dict[object, History]:
    """Return the history of each handoff by primary key. All handoffs must be of one tenant."""
    rows = list(handoffs)
    known = _load_ancestors(rows)
    traces = _load_traces([row for row in rows if row.derives_chain and row.trace_id])
    repeats = _count_repeats(rows)
    received = _count_repeats_received([row for row in rows if repeats.get(row.id, 0) >= TOLERATED_REPEATS])
    return {
        row.id: msgspec.structs.replace(
            _make_history(row, known, traces.get(row.id), repeats.get(row.id, 0)),
            repeats_received=received.get(row.id, 0),
        )
        for row in rows
    }


def _load_ancestors(rows: list[Handoff]) -> dict[str, Hop]:
    """Return these handoffs, the handoffs that they retry, and the ancestors of both, by `handoff_id`.

    One query reads them. It reads at least the nearest `MOST_ANCESTORS` ancestors of each handoff.
    """
    known = {
        row.handoff_id: Hop(row.handoff_id, row.parent_handoff_id, row.source_agent_id, row.target_agent_id)
        for row in rows
    }
    wanted = {hop.parent for hop in known.values() if hop.parent} | {row.retry_of for row in rows if row.retry_of}
    wanted -= known.keys()
    if not wanted:
        return known
    tenant, names = rows[0].tenant_id, sorted(wanted)
    # The query reads generation by generation. Each generation is at most as large as the first, so the limit covers
    # at least `MOST_ANCESTORS` generations.
    condition, values = db.among(names)
    with connection.cursor() as cursor:
        cursor.execute(_ANCESTORS.format(among=condition), [tenant, *values, tenant, MOST_ANCESTORS * len(names)])
        found = {hop[0]: Hop(*hop) for hop in cursor.fetchall()}
    return found | known


def _ancestors_statement() -> str:
    """Return the SQL statement that reads ancestors, because the ORM has no recursive queries.

    UNION drops rows that were read before, so that the recursion ends if handoffs name each other as parents.
    """
    parents = ", ".join(f"parent.{column}" for column in _HOP_COLUMNS.split(", "))
    return f"""
        WITH RECURSIVE ancestor({_HOP_COLUMNS}) AS (
            SELECT {_HOP_COLUMNS} FROM "{_TABLE}" WHERE tenant_id = %s AND handoff_id {{among}}
            UNION
            SELECT {parents} FROM ancestor
            JOIN "{_TABLE}" parent ON parent.tenant_id = %s AND parent.handoff_id = ancestor.parent_handoff_id
            WHERE ancestor.parent_handoff_id <> ''
        ) SELECT {_HOP_COLUMNS} FROM ancestor LIMIT %s
    """  # noqa: S608


_ANCESTORS = _ancestors_statement()

MOST_TRACES_AT_ONCE = 50


@dataclass(slots=True)
class TraceRoute:
    """The newest handoffs of a trace, in the order of their ids.

    `is_cut` is True if the trace may have older handoffs.
    `_to` maps each agent to the positions of the handoffs to this agent.
    """

    ids: list[uuid.UUID]
    hops: list[Hop]
    is_cut: bool
    _to: dict[str, list[int]] = field(default_factory=dict)
    _positions: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for position, hop in enumerate(self.hops):
            self._to.setdefault(hop.target, []).append(position)
            self._positions[hop.handoff_id] = position

    def position_of(self, hop: Hop) -> int | None:
        return self._positions.get(hop.handoff_id)

    def latest_to(self, agent: str, before: int) -> int | None:
        """Return the position of the latest handoff to an agent before a position, or None."""
        positions = self._to.get(agent, [])
        index = bisect_left(positions, before)
        return positions[index - 1] if index else None


def _load_traces(rows: Sequence[Handoff]) -> dict[object, TraceRoute]:
    """Return the route of the trace of each handoff, by primary key.

    A route has at least the `MOST_ANCESTORS` handoffs before the handoff, or all if there are fewer. Handoffs near each
    other share a route. All handoffs must derive their chain: a handoff with a declared chain needs no query.
    """
    routes: dict[object, TraceRoute] = {}
    while rows:
        of_trace: dict[str, list[Handoff]] = {}
        for row in rows:
            of_trace.setdefault(row.trace_id, []).append(row)
        most = {name: MOST_ANCESTORS + len(some) for name, some in sorted(of_trace.items())}
        wanted = [(name, max(row.id for row in of_trace[name]), number) for name, number in most.items()]
        found: dict[str, list[tuple[uuid.UUID, Hop]]] = {}
        for pk, trace_id, *hop in _read_newest(rows[0].tenant_id, wanted):
            found.setdefault(trace_id, []).append((db.to_uuid(pk), Hop(*hop)))
        rows = []
        for trace_id, hops in found.items():
            hops.sort()
            route = TraceRoute([pk for pk, _ in hops], [hop for _, hop in hops], len(hops) == most[trace_id])
            for row in of_trace[trace_id]:
                if route.is_cut and bisect_left(route.ids, row.id) < MOST_ANCESTORS:
                    rows.append(row)
                else:
                    routes[row.id] = route
    return routes


def _read_newest(tenant_id: int, wanted: Sequence[tuple[str, uuid.UUID, int]]) -> list[tuple[Any, ...]]:
    """Return the newest handoffs of traces.

    Each entry of `wanted` has the trace, the last primary key and the number of handoffs. PostgreSQL reads all traces
    in one statement, and SQLite at most `MOST_TRACES_AT_ONCE`. The statements are SQL, because the ORM can limit
    neither a join nor the parts of a union.
    """
    with connection.cursor() as cursor:
        if db.is_postgresql():
            cursor.execute(_NEWEST_OF_TRACES, [*map(list, zip(*wanted, strict=True)), tenant_id])
            return list(cursor.fetchall())
        found: list[tuple[Any, ...]] = []
        for start in range(0, len(wanted), MOST_TRACES_AT_ONCE):
            some = wanted[start : start + MOST_TRACES_AT_ONCE]
            values = [value for name, last, most in some for value in (tenant_id, name, last.hex, most)]
            cursor.execute(" UNION ALL ".join([_NEWEST_OF_TRACE] * len(some)), values)
            found += cursor.fetchall()
        return found


_OF_TRACE = f'SELECT "id", "trace_id", {_HOP_COLUMNS} FROM "{_TABLE}" WHERE tenant_id = %s'  # noqa: S608
_NEWEST_OF_TRACE = f"""
    SELECT * FROM ({_OF_TRACE} AND trace_id = %s AND id <= %s ORDER BY id DESC LIMIT %s) AS newest
"""  # noqa: S608
_NEWEST_OF_TRACES = f"""
    SELECT newest.* FROM unnest(%s::text[], %s::uuid[], %s::int[]) AS wanted(trace, last, most) CROSS JOIN LATERAL
    ({_OF_TRACE} AND trace_id = wanted.trace AND id <= wanted.last ORDER BY id DESC LIMIT wanted.most) AS newest
"""  # noqa: S608


def _make_history(row: Handoff, known: dict[str, Hop], trace: TraceRoute | None, repeats: int) -> History:
    unknown = tuple(name for name in (row.retry_of, row.parent_handoff_id) if name and name not in known)
    has_parent = bool(row.parent_handoff_id) and row.parent_handoff_id not in unknown
    if not has_parent and not row.derives_chain:
        # No earlier handoff is known, so there is nothing to compare the declared chain with.
        return History(repeats=repeats, unknown=unknown)
    walked = _walk(row, known, trace)
    hops = [*walked.hops, known[row.handoff_id]]
    full = _list_agents(hops)
    returns = _count_returns(hops) if row.derives_chain else 0
    return History(fold_returns(full), full, walked.complete, repeats, unknown, returns=returns)


def _walk(row: Handoff, known: dict[str, Hop], trace: TraceRoute | None) -> Walk:
    """Return the ancestors of a handoff, oldest first.

    If `trace` is given, a handoff without a known parent gets one: the latest earlier handoff of the trace to its
    source agent.
    """
    hops: list[Hop] = []
    seen = {row.handoff_id}
    hop, position = known[row.handoff_id], bisect_left(trace.ids, row.id) if trace else None
    while True:
        before = known.get(hop.parent) if hop.parent else None
        if trace and before is None and position is not None:
            at = trace.latest_to(hop.source, position)
            before = None if at is None else trace.hops[at]
        if before is None:
            return Walk(tuple(reversed(hops)), complete=not hop.parent and not (trace and trace.is_cut))
        if before.handoff_id in seen or len(hops) == MOST_ANCESTORS:
            return Walk(tuple(reversed(hops)), complete=False)
        hops.append(before)
        seen.add(before.handoff_id)
        hop, position = before, trace.position_of(before) if trace else None


def _count_returns(hops: Sequence[Hop]) -> int:
    """Return how many of these handoffs have the route of the last handoff and a target that had the work before."""
    last, returns = hops[-1], 0
    agents: set[str] = set()
    for hop in hops:
        returns += hop.target in agents and (hop.source, hop.target) == (last.source, last.target)
        agents.update((hop.source, hop.target))
    return returns


def _list_agents(hops: list[Hop]) -> tuple[str, ...]:
    """Return every agent that held the work, in order."""
    chain: list[str] = []
    for hop in hops:
        if not chain or chain[-1] != hop.source:
            chain.append(hop.source)
        chain.append(hop.target)
    # The last target does not hold the work yet.
    return tuple(chain[:-1])


def fold_returns(chain: tuple[str, ...]) -> tuple[str, ...]:
    """Return the chain without round trips.

    If an agent hands work to another agent and gets the work back, the other agent leaves the chain. A call leaves the
    stack in the same way (`docs/decisions/0006-derived-chain.md`).
    """
    folded: list[str] = []
    for agent in chain:
        if len(folded) >= 2 and folded[-2] == agent:
            folded.pop()
        else:
            folded.append(agent)
    return tuple(folded)


def _count_repeats(rows: list[Handoff]) -> dict[object, int]:
    """Return, for each handoff, the number of earlier handoffs of its trace with the same source, target and data."""
    traced = [row for row in rows if row.trace_id and row.data_hash]
    if not traced:
        return {}
    among_traces, traces = db.among(list({row.trace_id for row in traced}))
    among_hashes, hashes = db.among(list({row.data_hash for row in traced}))
    sql = _ALIKE.format(traces=among_traces, hashes=among_hashes)
    alike: dict[tuple[str, ...], list[uuid.UUID]] = {}
    with connection.cursor() as cursor:
        cursor.execute(sql, [traced[0].tenant_id, *traces, *hashes, MOST_REPEATS])
        for *key, pk in cursor.fetchall():
            alike.setdefault(tuple(key), []).append(db.to_uuid(pk))
    return {row.id: bisect_left(alike.get(_make_repeat_key(row), []), row.id) for row in traced}


def _count_repeats_received(rows: list[Handoff]) -> dict[object, int]:
    """Return, for each handoff, the number of repeats of the handoff that its source received last in the trace.

    A handoff whose source received nothing in the trace is left out.
    """
    latest = {
        row.pk: Handoff.objects.filter(
            tenant=row.tenant_id, trace_id=row.trace_id, target_agent_id=row.source_agent_id, id__lt=row.pk
        )
        .only("id", "tenant_id", "trace_id", "data_hash", "source_agent_id", "target_agent_id")
        .order_by("-id")
        .first()
        for row in rows
    }
    repeats = _count_repeats([received for received in latest.values() if received])
    return {pk: repeats.get(received.pk, 0) for pk, received in latest.items() if received}


# Every verdict needs this statement, which the ORM builds more slowly than the database runs it.
_ALIKE = f"""
    SELECT trace_id, data_hash, source_agent_id, target_agent_id, id FROM "{_TABLE}"
    WHERE tenant_id = %s AND trace_id {{traces}} AND data_hash {{hashes}} ORDER BY id LIMIT %s
"""  # noqa: S608


def _make_repeat_key(row: Handoff) -> tuple[str, ...]:
    return row.trace_id, row.data_hash, row.source_agent_id, row.target_agent_id
