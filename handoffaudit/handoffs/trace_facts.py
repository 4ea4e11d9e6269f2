"""Facts that agents brought into a trace, and roles of source agents, both for the judging of later handoffs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple
from uuid import UUID

from django.db import connection

from handoffaudit.handoffs import db
from handoffaudit.handoffs.models import AgentBehaviour, Handoff, TraceFact
from handoffaudit.handoffs.models.integrations import FactKind
from handoffaudit.validation.agents import AgentRole, SourceRole, guess_role
from handoffaudit.validation.claims import Claim, Source
from handoffaudit.validation.layers.grounding.records import leaves
from handoffaudit.validation.layers.grounding.reported import MOST_KEYS_OF_TRACE, reported_keys
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import clean

# A handoff knows only the newest facts of its trace: at most `MOST_FACTS` facts with at most `MOST_TEXT` characters
# together. The known facts must not depend on the other handoffs of the batch.
MOST_FACTS: Final = 500
MOST_TEXT: Final = 2 * 1024 * 1024
# If the facts of a batch have more characters than this, they are read for one handoff at a time.
MOST_LOADED: Final = 32 * 1024 * 1024
_TRACES_AT_ONCE: Final = 50
LONGEST_EVIDENCE: Final = 16 * 1024
_LONGEST_LABEL: Final = 80
_BEHAVIOUR: Final = "behaviour"
# These characters have a meaning in the path of a source.
_NO_LABEL: Final = re.compile(r"[\[\].:\s]+")


class Fact(NamedTuple):
    """The facts that one handoff brought into its trace: the columns of a `TraceFact`."""

    handoff_id: UUID
    trace_id: str
    kind: str
    label: str
    content: str
    tenant_id: int = 0


class Known(NamedTuple):
    """The knowledge before a handoff is judged: the role of its source, and the facts of its trace."""

    role: SourceRole
    reported: frozenset[str] = frozenset()
    evidence: tuple[Source, ...] = ()


class Snapshot(NamedTuple):
    """The behaviour of the source of a handoff, and the facts of its trace before the handoff, oldest first.

    `facts` has the kind, label and content of each fact.
    """

    behaviour: str = ""
    facts: tuple[tuple[str, str, str], ...] = ()


@dataclass(slots=True)
class TraceFacts:
    """The facts of the traces of some handoffs of one tenant, and the behaviour of their sources.

    Handoffs are judged in order. Each handoff knows the facts that earlier handoffs of the batch brought, although
    nothing of the batch is stored yet.
    """

    tenant_id: int
    _facts: dict[str, dict[UUID, Fact]] = field(default_factory=dict)
    _behaviour: dict[str, str] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _known: dict[UUID, Known] = field(default_factory=dict)
    _new: dict[UUID, Fact] = field(default_factory=dict)
    # The keys of a fact, split once for all later handoffs of its trace.
    _keys: dict[UUID, list[str]] = field(default_factory=dict)
    # Whether the stored facts were too large to be loaded together. `_facts` then has only the facts of this batch.
    _loads_each: bool = False

    def find_known(self, handoff: Handoff, record: Record, declared: Mapping[str, AgentRole]) -> Known:
        """Return the role and the facts for the judging of a handoff. Facts of later handoffs do not count.

        A handoff counts once for the behaviour of its source, even if its repaired candidates are judged as well.
        """
        if handoff.id in self._known:
            return self._known[handoff.id]
        role = self._role_of(record, declared.get(record.source_agent_id))
        keys: set[str] = set()
        evidence = []
        if self._loads_each:
            self._known.clear()
            self._keys.clear()
        for one in self._list_earlier(handoff):
            if one.kind == FactKind.EVIDENCE:
                evidence.append(Source(one.label, one.content))
            elif len(keys) < MOST_KEYS_OF_TRACE:
                keys.update(self._keys_of(one))
        known = self._known[handoff.id] = Known(role, frozenset(keys), tuple(evidence))
        return known

    def snapshot(self, handoff: Handoff) -> "Snapshot":
        """Return the knowledge before a handoff is judged, to judge a copy of the handoff later."""
        found = self._list_earlier(handoff)[::-1]
        return Snapshot(
            self._behaviour.get(handoff.source_agent_id, ""), tuple((one.kind, one.label, one.content) for one in found)
        )

    def _list_earlier(self, handoff: Handoff) -> list[Fact]:
        """Return the facts of the trace before a handoff, within the limits, the newest first."""
        facts = self._facts.get(handoff.trace_id, {})
        if self._loads_each and handoff.trace_id:
            rows = _read_rows(self.tenant_id, [handoff])
            stored = [_make_fact(*row) for row in rows if row[0] != _BEHAVIOUR]
            facts = {fact.handoff_id: fact for fact in stored} | facts
        newest = [facts[pk] for pk in sorted((pk for pk in facts if pk < handoff.id), reverse=True)[:MOST_FACTS]]
        sizes = accumulate(len(one.content) for one in newest)
        return [one for one, size in zip(newest, sizes, strict=True) if size <= MOST_TEXT]

    @classmethod
    def of_snapshot(cls, handoff: Handoff, snapshot: "Snapshot") -> "TraceFacts":
        """Return the facts of a copied handoff. The database is not read."""
        facts = {
            UUID(int=number): Fact(UUID(int=number), handoff.trace_id, *fact)
            for number, fact in enumerate(snapshot.facts)
        }
        return cls(handoff.tenant_id, {handoff.trace_id: facts}, {handoff.source_agent_id: snapshot.behaviour})

    def _keys_of(self, fact: Fact) -> list[str]:
        keys = self._keys.get(fact.handoff_id)
        if keys is None:
            keys = self._keys[fact.handoff_id] = fact.content.split("\n")
        return keys

    def _role_of(self, record: Record, declared: AgentRole | None) -> SourceRole:
        if declared is not None:
            return SourceRole(declared, is_declared=True)
        agent = record.source_agent_id
        before = self._behaviour.get(agent, "")
        role, self._behaviour[agent] = guess_role(record, before)
        if self._behaviour[agent] != before:
            self._changed.add(agent)
        return role

    def learn(self, handoff: Handoff, record: Record, known: Known, claims: Iterable[Claim]) -> None:
        """Keep the facts that a judged handoff brought into its trace, unless they are kept already."""
        if not handoff.trace_id or handoff.id in self._new:
            return
        if known.role.is_evidence:
            kind, content = FactKind.EVIDENCE, _join_texts(record)
        else:
            kind, content = FactKind.REPORTED, clean("\n".join(reported_keys(claims, known.reported)), LONGEST_EVIDENCE)
        if not content:
            return
        label = f"trace[{_NO_LABEL.sub('_', record.source_agent_id)[:_LONGEST_LABEL]}]"
        fact = Fact(handoff.id, handoff.trace_id, kind.value, label, content, self.tenant_id)
        self._new[handoff.id] = self._facts.setdefault(handoff.trace_id, {})[handoff.id] = fact

    def fact_of(self, handoff: UUID) -> Fact | None:
        """Return the facts that a handoff brought into its trace, or None."""
        return self._new.get(handoff)

    def store_behaviour(self) -> None:
        """Store the behaviour of the agents whose behaviour has changed since it was read or stored."""
        rows = [[self.tenant_id, agent, self._behaviour[agent]] for agent in sorted(self._changed) if agent]
        self._changed.clear()
        db.upsert_rows(_BEHAVIOUR_OF_AGENT, rows, 2)


def _join_texts(record: Record) -> str:
    """Return the texts and numbers of the data, one in each line, up to 16,384 characters."""
    kept, room = [], LONGEST_EVIDENCE
    for source in leaves(record.data, ""):
        kept.append(source.text[:room])
        room -= len(source.text) + 1
        if room <= 0:
            break
    return clean("\n".join(kept), LONGEST_EVIDENCE)


def load_facts(handoffs: Sequence[Handoff]) -> TraceFacts:
    """Return the facts of the traces of these handoffs and the behaviour of their sources.

    PostgreSQL reads all of them with one query. All handoffs must be of one tenant.
    """
    behaviour: dict[str, str] = {}
    facts: dict[str, dict[UUID, Fact]] = {}
    size = 0
    for kind, name, label, content, handoff in _read_rows(handoffs[0].tenant_id, handoffs):
        if kind == _BEHAVIOUR:
            behaviour[name] = content
            continue
        size += len(content)
        if size > MOST_LOADED:
            return TraceFacts(handoffs[0].tenant_id, _behaviour=behaviour, _loads_each=True)
        fact = _make_fact(kind, name, label, content, handoff)
        facts.setdefault(name, {})[fact.handoff_id] = fact
    return TraceFacts(handoffs[0].tenant_id, facts, behaviour)


def _make_fact(kind: str, trace: str, label: str, content: str, handoff: str) -> Fact:
    return Fact(UUID(handoff), trace, kind, label, content)


def _read_rows(tenant_id: int, handoffs: Sequence[Handoff]) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the kind, name, label, content and handoff of each behaviour, and then of each fact.

    SQLite has no LATERAL, and reads the facts of 50 handoffs in one statement. PostgreSQL reads all rows in one
    statement, which returns no facts after the first fact beyond `MOST_LOADED`.
    """
    by_agents, agents = db.among(sorted({handoff.source_agent_id for handoff in handoffs}))
    behaviour = _BEHAVIOURS.format(agents=by_agents)
    wanted = _list_wanted(handoffs)
    with connection.cursor() as cursor:
        if db.is_postgresql():
            arrays = [list(column) for column in zip(*wanted, strict=True)] or [[], [], []]
            values = [tenant_id, *agents, *arrays, tenant_id, MOST_FACTS, MOST_TEXT, MOST_LOADED]
            cursor.execute(f"{behaviour} UNION ALL {_OF_TRACES}", values)
            yield from cursor.fetchall()
            return
        for start in range(0, max(len(wanted), 1), _TRACES_AT_ONCE):
            some = wanted[start : start + _TRACES_AT_ONCE]
            values = [
                value
                for trace, after, before in some
                for value in (tenant_id, trace, after.hex, before.hex, MOST_FACTS, MOST_TEXT)
            ]
            statements = [_OF_TRACE] * len(some)
            if not start:
                statements, values = [behaviour, *statements], [tenant_id, *agents, *values]
            cursor.execute(" UNION ALL ".join(statements), values)
            yield from cursor


def _list_wanted(handoffs: Sequence[Handoff]) -> list[tuple[str, UUID, UUID]]:
    """Return the ranges of the traces whose facts must be read, so that no fact is read twice.

    A range has the trace, the id where the range begins, and the id of the handoff before which the range ends. The
    first range of a trace begins at the least id, and each further range begins at the previous handoff of the batch.
    """
    wanted: list[tuple[str, UUID, UUID]] = []
    for trace, pk in sorted({(handoff.trace_id, handoff.id) for handoff in handoffs if handoff.trace_id}):
        after = wanted[-1][2] if wanted and wanted[-1][0] == trace else _LEAST
        wanted.append((trace, after, pk))
    return wanted


_LEAST: Final = UUID(int=0)


def _select_facts(trace: str, after: str, before: str) -> str:
    """Return the SQL for the facts of a range of handoffs of a trace, the newest first.

    The rows end with the first fact that brings the total length above the limit (`MOST_TEXT`).
    """
    table = TraceFact._meta.db_table  # noqa: SLF001 -- documented API
    return f"""
        SELECT kind, trace_id, label, content, CAST(handoff_id AS text) AS pk FROM (
            SELECT *, SUM(LENGTH(content)) OVER (ORDER BY handoff_id DESC) AS size FROM (
                SELECT * FROM "{table}" WHERE tenant_id = %s AND trace_id = {trace}
                AND handoff_id >= {after} AND handoff_id < {before} ORDER BY handoff_id DESC LIMIT %s
            ) AS newest
        ) AS sized WHERE size - LENGTH(content) <= %s
    """  # noqa: S608


_OF_TRACE: Final = f"SELECT * FROM ({_select_facts('%s', '%s', '%s')}) AS found"  # noqa: S608
_OF_TRACES: Final = f"""
    SELECT kind, trace_id, label, content, pk FROM (
        SELECT found.*, SUM(LENGTH(content)) OVER (ROWS UNBOUNDED PRECEDING) AS loaded
        FROM unnest(%s::text[], %s::uuid[], %s::uuid[]) AS wanted(trace, after, before)
        CROSS JOIN LATERAL ({_select_facts("wanted.trace", "wanted.after", "wanted.before")}) AS found
    ) AS counted WHERE loaded - LENGTH(content) <= %s
"""  # noqa: S608
_BEHAVIOURS: Final = f"""
    SELECT '{_BEHAVIOUR}', agent, '', forms, '' FROM "{AgentBehaviour._meta.db_table}"
    WHERE tenant_id = %s AND agent {{agents}}
"""  # noqa: S608, SLF001 -- documented API


_FACT: Final = db.Columns.of(TraceFact, "handoff", "trace_id", "kind", "label", "content", "tenant")
_BEHAVIOUR_OF_AGENT: Final = db.Columns.of(AgentBehaviour, "tenant", "agent", "forms")


def store(facts: Iterable[Fact]) -> None:
    """Store the facts that judged handoffs brought into their traces; call inside a transaction."""
    db.upsert_rows(_FACT, list(facts), 1)
