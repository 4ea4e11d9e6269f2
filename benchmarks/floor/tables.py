"""The floor's table: the columns and indexes of the handoff table, with the document in the same row."""

import re

TABLE = "bench_floor"
ROW = (
    *("id", "tenant_id", "handoff_id", "format", "handoff_type", "source_agent_id", "target_agent_id", "trace_id"),
    *("parent_handoff_id", "retry_of", "step", "state", "received_at", "sender_timestamp", "size_bytes"),
    *("content_hash", "data_hash", "chain_length", "original"),
)
LISTED = ", ".join(f'"{name}"' for name in ROW)
TYPES = (
    *("uuid", "int8", "varchar", "varchar", "varchar", "varchar", "varchar", "varchar"),
    *("varchar", "varchar", "int4", "varchar", "timestamptz", "timestamptz", "int4"),
    *("varchar", "varchar", "int4", "bytea"),
)


SPANS_TABLE = "bench_spans"
SPANS_OF_EXPORT = 512
SPAN = (
    "id",
    "tenant_id",
    "trace_id",
    "span_id",
    "parent_id",
    "name",
    "started",
    "ended",
    "conversation",
    "key",
    "facts",
)
SPAN_TYPES = ("uuid", "int8", "varchar", "varchar", "varchar", "varchar", "int8", "int8", "varchar", "int8", "bytea")


def statements(vendor: str, sqlite_schema: list[tuple[str, str]]) -> list[str]:
    """Return the statements that create the floor's table in the product's database.

    `sqlite_schema` has the kind and the SQL of each part of the product's table on SQLite.
    """
    if vendor == "postgresql":
        return [
            f"CREATE TABLE {TABLE} (LIKE handoffs_handoff INCLUDING ALL)",
            f"ALTER TABLE {TABLE} ADD COLUMN original bytea NOT NULL",
            f"CREATE TABLE {SPANS_TABLE} (LIKE handoffs_telemetryspan INCLUDING ALL)",
            f"ALTER TABLE {SPANS_TABLE} ALTER COLUMN facts TYPE bytea USING facts::bytea",
        ]
    made = []
    for kind, sql in sorted(sqlite_schema, key=lambda entry: entry[0] != "table"):
        named = sql.replace('"handoffs_handoff"', f'"{TABLE}"')
        if kind == "index":
            named = re.sub(r'INDEX "(\w+)"', r'INDEX "bench_\1"', named)
        made.append(named)
    return [*made, f"ALTER TABLE {TABLE} ADD COLUMN original BLOB NOT NULL DEFAULT x''"]
