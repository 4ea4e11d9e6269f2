"""The history of a handoff: its chain of agents, repeats of the same data, and the changes between its attempts."""

import uuid
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection

from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.diff import Difference, difference
from handoffaudit.validation.json_text import parse_json
from handoffaudit.validation.layers.base import History

# The largest number of ancestors that are read. A longer chain counts as incomplete.
MOST_ANCESTORS = 200

# The largest number of rows that are read to count the repeats in the traces of a batch.
MOST_REPEATS = 20_000


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
    repeats = _count_repeats(rows)
    return {row.pk: _make_history(row, known, repeats.get(row.pk, 0)) for row in rows}


def _load_ancestors(rows: list[Handoff]) -> dict[str, Hop]:
    """Return these handoffs, all their ancestors and the handoffs that they retry, by `handoff_id`.

    One query reads all of them.
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
    values: list[str | int] = [tenant, *names, tenant, MOST_ANCESTORS * len(names)]
    with connection.cursor() as cursor:
        cursor.execute(_ANCESTORS.format(names=", ".join(["%s"] * len(names))), values)
        found = {hop[0]: Hop(*hop) for hop in cursor.fetchall()}
    return found | known


def _ancestors_statement() -> str:
    """Return the SQL statement that reads ancestors, because the ORM has no recursive queries.

    UNION drops rows that were read before, so that the recursion ends if handoffs name each other as parents.
    """
    table = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API
    columns = [f'"{name}"' for name in ("handoff_id", "parent_handoff_id", "source_agent_id", "target_agent_id")]
    listed = ", ".join(columns)
    parents = ", ".join(f"parent.{column}" for column in columns)
    return f"""
        WITH RECURSIVE ancestor({listed}) AS (
            SELECT {listed} FROM "{table}" WHERE tenant_id = %s AND handoff_id IN ({{names}})
            UNION
            SELECT {parents} FROM ancestor
            JOIN "{table}" parent ON parent.tenant_id = %s AND parent.handoff_id = ancestor.parent_handoff_id
            WHERE ancestor.parent_handoff_id <> ''
        ) SELECT {listed} FROM ancestor LIMIT %s
    """  # noqa: S608


_ANCESTORS = _ancestors_statement()


def _make_history(row: Handoff, known: dict[str, Hop], repeats: int) -> History:
    unknown = tuple(name for name in (row.retry_of, row.parent_handoff_id) if name and name not in known)
    if not row.parent_handoff_id or row.parent_handoff_id in unknown:
        # No earlier handoff is known, so there is nothing to compare the declared chain with.
        return History(repeats=repeats, unknown=unknown)
    walked = _walk(row, known)
    full = _list_agents([*walked.hops, known[row.handoff_id]])
    folded = fold_returns(full)
    return History(folded, full, walked.complete, repeats, unknown)


def _walk(row: Handoff, known: dict[str, Hop]) -> Walk:
    hops: list[Hop] = []
    seen = {row.handoff_id}
    parent = row.parent_handoff_id
    while parent and parent not in seen and len(hops) < MOST_ANCESTORS:
        hop = known.get(parent)
        if hop is None:
            break
        hops.append(hop)
        seen.add(parent)
        parent = hop.parent
    return Walk(tuple(reversed(hops)), complete=not parent)


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

    If an agent hands work to another agent and gets the work back, the other agent leaves the chain, as a call leaves
    the stack when it returns (`docs/decisions/0006-derived-chain.md`).
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
    alike: dict[tuple[str, ...], list[uuid.UUID]] = {}
    found = (
        Handoff.objects.filter(
            tenant=traced[0].tenant_id,
            trace_id__in={row.trace_id for row in traced},
            data_hash__in={row.data_hash for row in traced},
        )
        .order_by("id")
        .values_list("trace_id", "data_hash", "source_agent_id", "target_agent_id", "id")
    )
    for *key, pk in found[:MOST_REPEATS]:
        alike.setdefault(tuple(key), []).append(pk)
    return {row.pk: bisect_left(alike.get(_make_repeat_key(row), []), row.pk) for row in traced}


def _make_repeat_key(row: Handoff) -> tuple[str, ...]:
    return row.trace_id, row.data_hash, row.source_agent_id, row.target_agent_id


# Comparing two documents of this size takes a tenth of a second.
LARGEST = 256 * 1024

MOST = 20


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt and its changes since the previous attempt.

    `changed` is None for the first attempt. It is also None if one of the two documents cannot be read or is too large
    to compare; `why` then gives the reason.
    """

    handoff: Handoff
    changed: Difference | None = None
    why: str = ""


def compare_attempts(handoff: Handoff) -> list[Attempt]:
    """Return the newest attempts of the handoff's lineage, oldest first, each compared with the previous attempt."""
    known = queries.attempts(handoff, MOST)
    if len(known) < 2:
        return [Attempt(one) for one in known]
    found: list[Attempt] = []
    before: Any = None
    for number, one in enumerate(known):
        after = _parse_document(one)
        found.append(_make_attempt(one, before, after) if number else Attempt(one))
        before = after
    return found


def compare_pair(before: Handoff, after: Handoff) -> Attempt:
    """Return `after` with its changes from `before`. Either of them may have arrived first."""
    return _make_attempt(after, _parse_document(before), _parse_document(after))


def _make_attempt(handoff: Handoff, before: Any, after: Any) -> Attempt:
    for document in (before, after):
        if isinstance(document, str):
            return Attempt(handoff, why=document)
    return Attempt(handoff, difference(before, after))


def _parse_document(handoff: Handoff) -> Any:
    """Return the parsed document, or a text that says why the document cannot be compared."""
    if handoff.size_bytes > LARGEST:
        return f"attempt {handoff.attempt} is larger than {LARGEST // 1024} KiB"
    body = queries.body(handoff)
    if body is None:
        return f"the document of attempt {handoff.attempt} was removed by retention"
    value, issues = parse_json(bytes(body.original))
    return f"attempt {handoff.attempt} is not readable as JSON" if issues or isinstance(value, str) else value
