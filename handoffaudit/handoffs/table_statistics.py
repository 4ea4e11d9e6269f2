"""The first statistics of large tables on PostgreSQL, gathered before autovacuum looks."""

from typing import Final

import structlog
from django.db import OperationalError, connection, transaction

from handoffaudit.handoffs import db

log = structlog.get_logger(__name__)

# Smaller tables have at most some hundred rows, which are read fast with any plan.
_LEAST_BYTES: Final = 256 * 1024
_LOCK_MILLISECONDS: Final = 100
_WITHOUT: Final = """
    SELECT relname FROM pg_class
    WHERE relkind = 'r' AND reltuples <= 0 AND relname ~ '^(handoffs|diagnostics)_'
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('handoffs_handoff'))
    AND pg_relation_size(oid) >= %s
    ORDER BY relname
"""

# The tables at which this process has looked; what it could not gather, autovacuum will.
_gathered: set[str] = set()


def gather_missing() -> None:
    """Gather the statistics of tables that have grown but have no statistics yet.

    Autovacuum looks once a minute. Until then, PostgreSQL plans queries as if the tables of a new installation were
    empty: the search for the ancestors of a handoff reads all handoffs of the tenant.
    """
    if not db.is_postgresql():
        return
    with connection.cursor() as cursor:
        cursor.execute(_WITHOUT, [_LEAST_BYTES])
        names = [name for (name,) in cursor.fetchall() if name not in _gathered]
    for name in names:
        _gathered.add(name)
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}")
                cursor.execute(f'ANALYZE "{name}"')
        except OperationalError as error:
            log.info("the statistics of a table were not gathered", table=name, error=str(error))
