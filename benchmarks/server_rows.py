"""Rows made by PostgreSQL itself: a million handoffs in a minute, with documents, verdicts, findings and events.

Documents and verdicts are those of the bundled samples, in turn from the newest handoff. So pages of the newest
handoffs show the same documents for any number of rows. The counts are those that a recount expects.
"""

# ruff: noqa: SLF001 -- the SQL of a recount counts the handoffs, so that there is no second SQL for the same counts

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction
from django.utils import timezone

from benchmarks.filling import (
    LONG_TRACE,
    LONG_TRACE_ENDS,
    LONG_TRACE_LENGTH,
    TYPES,
    list_samples,
    update_statistics,
)
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import partitions, recount
from handoffaudit.handoffs.counts import AGGREGATES
from handoffaudit.handoffs.filters import moment_of

# One in this many handoffs has a document and a verdict.
WITH_DOCUMENT: Final = 1
# The newest handoffs have documents in any case, because the pages show these.
NEWEST: Final = 500
# Up to this number of rows, an empty table is filled without dropping its indexes.
FEW: Final = 100_000
_ID: Final = """
    (lpad(to_hex(({first})::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 3)
        || '8' || substr(md5('h' || i), 1, 15))::uuid
"""
_HANDOFFS: Final = """
    INSERT INTO handoffs_handoff (
        id, tenant_id, handoff_id, format, handoff_type, source_agent_id, target_agent_id, trace_id, step, state,
        version, received_at, judged_at, size_bytes, content_hash, data_hash, verdict, score, codes, token_count,
        chain_length, tries
    )
    SELECT id, %(tenant)s, %(name)s || i, 'payload', (%(types)s::text[])[1 + i %% 8],
        'agent-' || i %% 40, 'agent-' || i %% 37, trace, i %% 8,
        CASE WHEN i %% 10 > 0 THEN 'accepted' WHEN i > %(rows)s - %(waiting)s THEN 'held' ELSE 'rejected' END,
        2, at, at, 3000, md5('c' || i) || md5('d' || i), md5('e' || i) || md5('f' || i), id, 1.0,
        CASE WHEN i %% 10 = 0 THEN '["chain.circular"]'::jsonb ELSE '[]'::jsonb END, 700, 3, 1
    FROM filled
"""
_BESIDE: Final = (
    """INSERT INTO handoffs_handoffbody (handoff_id, original, context, evidence)
       SELECT id, original, context, evidence FROM filled JOIN sampled ON number = (%(rows)s - i) %% %(samples)s
       WHERE i %% %(every)s = 0 OR i > %(rows)s - %(newest)s""",
    """INSERT INTO handoffs_verdict (id, tenant_id, handoff_id, outcome, policy_version, validated_at, content)
       SELECT id, %(tenant)s, id, 'accepted', 1, at, verdict FROM filled
       JOIN sampled ON number = (%(rows)s - i) %% %(samples)s
       WHERE i %% %(every)s = 0 OR i > %(rows)s - %(newest)s""",
    """INSERT INTO handoffs_finding (tenant_id, handoff_id, code, severity, layer, field_path)
       SELECT %(tenant)s, id, 'chain.circular', 'error', 'chain', 'call_chain' FROM filled WHERE i %% 10 = 0""",
    """INSERT INTO handoffs_event (tenant_id, handoff_id, at, actor_kind, actor, from_state, to_state, reason)
       SELECT %(tenant)s, id, at, 'system', 'bench', before, after, '' FROM filled
       CROSS JOIN (VALUES ('', 'received'), ('received', 'validating'), ('validating', 'accepted'))
           AS steps (before, after)""",
    """INSERT INTO diagnostics_tracedhandoff
           (handoff, tenant_id, trace_id, at, source_agent_id, target_agent_id, caused, passed_on, verdict)
       SELECT id, %(tenant)s, trace, at, 'agent-' || i %% 40, 'agent-' || i %% 37, 0, 0, id FROM filled""",
    """INSERT INTO diagnostics_attribution (tenant_id, trace_id, handoff, at, agent, code, field_path, value, caused)
       SELECT %(tenant)s, trace, id, at, 'agent-' || i %% 40, 'chain.circular', 'call_chain', '', true
       FROM filled WHERE i %% 10 = 0""",
)

_TABLES: Final = (
    "handoffs_handoff",
    "handoffs_finding",
    "handoffs_event",
    "diagnostics_tracedhandoff",
    "diagnostics_attribution",
)


def _make_weeks(begin: datetime) -> None:
    """Create a partition for each week since `begin`, as an installation has that began at that time.

    The first partition of a new installation has all earlier weeks, and a removal drops the oldest partitions.
    """
    for table in partitions.TABLES:
        first, *_ = partitions.list_partitions(table)
        until = moment_of(first.low)
        if not first.low.int and partitions.is_empty(first):
            until = first.ends_at
            with transaction.atomic():
                partitions.detach([first], lambda: True)
            partitions.drop_detached(table)
        monday = partitions.week_of(begin)
        while monday < until:
            partitions.make_week(table, monday)
            monday += partitions.WEEK


@contextmanager
def _without_indexes(cursor: Any, tables: tuple[str, ...]) -> Iterator[None]:
    """Drop the indexes of empty tables, and build them at the end, which is much faster than updating them."""
    cursor.execute(
        """SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
           LEFT JOIN pg_constraint ON conindid = indexrelid
           WHERE indrelid = ANY(%s::regclass[]) AND conindid IS NULL""",
        [list(tables)],
    )
    found = cursor.fetchall()
    for name, _ in found:
        cursor.execute(f"DROP INDEX {name}")
    yield
    cursor.execute("SET maintenance_work_mem = '512MB'")
    for _, definition in found:
        cursor.execute(definition)


def fill(
    tenant: Tenant,
    rows: int,
    *,
    days: float = 30.0,
    oldest: float = 90.0,
    every: int = WITH_DOCUMENT,
    waiting: int = 0,
    once: bool = False,
) -> None:
    """Add handoffs of `days` days; the oldest handoff is `oldest` days old. PostgreSQL only.

    One handoff of `every` has a document. Of the newest `waiting` handoffs, those with a finding are held. With `once`,
    a filled tenant does not change.
    """
    if once and tenant.handoff_set.exists():
        return
    begin = timezone.now() - timedelta(days=oldest)
    step = timedelta(days=days) / max(rows, 1)
    samples = list(list_samples(tenant))
    is_new = not tenant.handoff_set.exists()
    _make_weeks(begin)
    values: dict[str, Any] = {"tenant": tenant.pk, "rows": rows, "samples": len(samples), "every": every}
    values["name"] = f"filled-{secrets.token_hex(4)}-"
    values |= {"begin": begin, "step": step, "waiting": waiting, "newest": NEWEST, "types": TYPES}
    values |= {"long": rows - LONG_TRACE_ENDS - LONG_TRACE_LENGTH, "length": LONG_TRACE_LENGTH, "trace": LONG_TRACE}
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS filled; DROP TABLE IF EXISTS sampled")
        cursor.execute(
            "CREATE UNLOGGED TABLE sampled (number int, original bytea, context bytea, evidence bytea, verdict text)"
        )
        cursor.executemany(
            "INSERT INTO sampled VALUES (%s, %s, %s, %s, %s)",
            [(n, one.original, one.context, one.evidence, one.verdict) for n, one in enumerate(samples)],
        )
        identifier = _ID.format(first="EXTRACT(EPOCH FROM at) * 1000")
        cursor.execute(
            f"""CREATE UNLOGGED TABLE filled AS SELECT i, at, {identifier} AS id,
                CASE WHEN i > %(long)s AND i <= %(long)s + %(length)s THEN %(trace)s ELSE 'trace-' || i / 8 END AS trace
                FROM (SELECT i, %(begin)s + i * %(step)s AS at FROM generate_series(1, %(rows)s) AS i) AS numbered""",
            values,
        )
        with _without_indexes(cursor, _TABLES if is_new and rows > FEW else ()):
            for statement in (_HANDOFFS, *_BESIDE):
                cursor.execute(statement, values)
        cursor.execute("DROP TABLE filled; DROP TABLE sampled")
    if is_new:
        _insert_counts()
    update_statistics()
    if not is_new:
        recount.recount()


def _insert_counts() -> None:
    """Insert the counts that a recount would compare. A recount corrects a limited number of counts in each round."""
    with transaction.atomic(), connection.cursor() as cursor:
        true = f"CREATE TEMPORARY TABLE {recount._TRUE} ON COMMIT DROP AS {recount._count_sql()}"
        cursor.execute(true, [recount._edge()])
        for aggregate in AGGREGATES:
            key, folded = recount._fold_sql(aggregate)
            cursor.execute(f'INSERT INTO "{aggregate.table}" ({key}, {", ".join(aggregate.numbers)}) {folded}')
