"""Facts of a trace, which its agents brought into it, and roles of sources, for the judging of later handoffs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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

# At most this many facts are read for the traces of a batch, the newest first.
MOST_FACTS: Final = 500
LONGEST_EVIDENCE: Final = 16 * 1024
_LONGEST_LABEL: Final = 80
_BEHAVIOUR: Final = "behaviour"
# These signs have a meaning in the path of a source.
_NO_LABEL: Final = re.compile(r"[\[\].:\s]+")


class Known(NamedTuple):
    """The knowledge before a handoff is judged: the role of its source, and the facts of its trace."""

    role: SourceRole
    reported: frozenset[str] = frozenset()
    evidence: tuple[Source, ...] = ()


class Snapshot(NamedTuple):
    """The behaviour of a source, and the facts of a trace before one of its handoffs, oldest first.

    A fact has its kind, label and content.
    """

    behaviour: str = ""
    facts: tuple[tuple[str, str, str], ...] = ()


@dataclass(slots=True)
class TraceFacts:
    """The facts of the traces of some handoffs of one tenant, and the behaviour of their sources.

    Handoffs that are judged in order learn from one another before anything is stored.
    """

    tenant_id: int
    _facts: dict[str, dict[UUID, TraceFact]] = field(default_factory=dict)
    _behaviour: dict[str, str] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _known: dict[UUID, Known] = field(default_factory=dict)
    _new: dict[UUID, TraceFact] = field(default_factory=dict)
    # The keys of a fact, split once for all later handoffs of its trace.
    _keys: dict[UUID, list[str]] = field(default_factory=dict)

    def known_to(self, handoff: Handoff, record: Record, declared: Mapping[str, AgentRole]) -> Known:
        """Return the role and the facts for the judging of a handoff. Facts of later handoffs do not count.

        A handoff counts once for the behaviour of its source, even if its repaired candidates are judged as well.
        """
        if handoff.pk in self._known:
            return self._known[handoff.pk]
        role = self._role_of(record, declared.get(record.source_agent_id))
        earlier = [one for pk, one in self._facts.get(handoff.trace_id, {}).items() if pk < handoff.pk]
        keys: set[str] = set()
        evidence = []
        for one in sorted(earlier, key=lambda fact: fact.pk, reverse=True):
            if one.kind == FactKind.EVIDENCE:
                evidence.append(Source(one.label, one.content))
            elif len(keys) < MOST_KEYS_OF_TRACE:
                keys.update(self._keys_of(one))
        known = self._known[handoff.pk] = Known(role, frozenset(keys), tuple(evidence))
        return known

    def snapshot(self, handoff: Handoff) -> "Snapshot":
        """Return the knowledge before a handoff is judged, to judge a copy of the handoff later."""
        earlier = sorted(pk for pk in self._facts.get(handoff.trace_id, {}) if pk < handoff.pk)
        found = (self._facts[handoff.trace_id][pk] for pk in earlier)
        return Snapshot(
            self._behaviour.get(handoff.source_agent_id, ""), tuple((one.kind, one.label, one.content) for one in found)
        )

    @classmethod
    def of_snapshot(cls, handoff: Handoff, snapshot: "Snapshot") -> "TraceFacts":
        """Return the facts of a copied handoff. The database is not read."""
        facts = {
            UUID(int=number): TraceFact(handoff_id=UUID(int=number), kind=kind, label=label, content=content)
            for number, (kind, label, content) in enumerate(snapshot.facts)
        }
        return cls(handoff.tenant_id, {handoff.trace_id: facts}, {handoff.source_agent_id: snapshot.behaviour})

    def _keys_of(self, fact: TraceFact) -> list[str]:
        keys = self._keys.get(fact.pk)
        if keys is None:
            keys = self._keys[fact.pk] = fact.content.split("\n")
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
        """Keep the facts that a judged handoff brought into its trace, once."""
        if not handoff.trace_id or handoff.pk in self._new:
            return
        if known.role.is_evidence:
            kind, content = FactKind.EVIDENCE, _join_texts(record)
        else:
            kind, content = FactKind.REPORTED, clean("\n".join(reported_keys(claims, known.reported)), LONGEST_EVIDENCE)
        if not content:
            return
        fact = TraceFact(
            handoff_id=handoff.pk,
            tenant_id=self.tenant_id,
            trace_id=handoff.trace_id,
            kind=kind,
            label=f"trace[{_NO_LABEL.sub('_', record.source_agent_id)[:_LONGEST_LABEL]}]",
            content=content,
        )
        self._new[handoff.pk] = self._facts.setdefault(handoff.trace_id, {})[handoff.pk] = fact

    def fact_of(self, handoff: UUID) -> TraceFact | None:
        """Return the facts that a handoff brought into its trace, or None."""
        return self._new.get(handoff)

    def store_behaviour(self) -> None:
        """Store the behaviour of agents that changed. An agent that always writes alike changes nothing."""
        rows = [
            AgentBehaviour(tenant_id=self.tenant_id, agent=agent, forms=self._behaviour[agent])
            for agent in sorted(self._changed)
            if agent
        ]
        self._changed.clear()
        if rows:
            AgentBehaviour.objects.bulk_create(
                rows, update_conflicts=True, unique_fields=["tenant", "agent"], update_fields=["forms"]
            )


def _join_texts(record: Record) -> str:
    """Return the texts and numbers of the data, one in each line, up to 16 KiB."""
    kept, room = [], LONGEST_EVIDENCE
    for source in leaves(record.data, ""):
        kept.append(source.text[:room])
        room -= len(source.text) + 1
        if room <= 0:
            break
    return clean("\n".join(kept), LONGEST_EVIDENCE)


def load_facts(handoffs: Sequence[Handoff]) -> TraceFacts:
    """Return the facts of the traces of these handoffs and the behaviour of their sources, with one query.

    All handoffs must be of one tenant.
    """
    found = TraceFacts(handoffs[0].tenant_id)
    traces = sorted({handoff.trace_id for handoff in handoffs if handoff.trace_id}) or [""]
    agents = sorted({handoff.source_agent_id for handoff in handoffs})
    (in_traces, traces), (by_agents, agents) = db.among(traces), db.among(agents)
    statement = _FACTS.format(traces=in_traces, agents=by_agents)
    with connection.cursor() as cursor:
        cursor.execute(statement, [found.tenant_id, *traces, MOST_FACTS, found.tenant_id, *agents])
        rows = cursor.fetchall()
    for kind, name, label, content, handoff in rows:
        if kind == _BEHAVIOUR:
            found._behaviour[name] = content  # noqa: SLF001 -- this function makes the object
            continue
        pk = UUID(handoff)
        fact = TraceFact(handoff_id=pk, trace_id=name, kind=kind, label=label, content=content)
        found._facts.setdefault(name, {})[pk] = fact  # noqa: SLF001
    return found


def _facts_statement() -> str:
    """Return the SQL statement that reads both tables at once. Django's `union` cannot limit one of its parts."""
    facts, behaviour = TraceFact._meta.db_table, AgentBehaviour._meta.db_table  # noqa: SLF001 -- documented API
    return f"""
        SELECT kind, trace_id, label, content, pk FROM (
            SELECT kind, trace_id, label, content, CAST(handoff_id AS text) AS pk FROM "{facts}"
            WHERE tenant_id = %s AND trace_id {{traces}} ORDER BY handoff_id DESC LIMIT %s
        ) AS newest
        UNION ALL
        SELECT '{_BEHAVIOUR}', agent, '', forms, '' FROM "{behaviour}" WHERE tenant_id = %s AND agent {{agents}}
    """  # noqa: S608


_FACTS: Final = _facts_statement()


def store(facts: Iterable[TraceFact]) -> None:
    """Store the facts that judged handoffs brought into their traces; call inside a transaction."""
    rows = list(facts)
    if rows:
        TraceFact.objects.bulk_create(
            rows, update_conflicts=True, unique_fields=["handoff"], update_fields=["kind", "label", "content"]
        )
