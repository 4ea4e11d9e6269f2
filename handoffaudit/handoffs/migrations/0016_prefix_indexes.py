from django.db import migrations, models

# With the operator class, an index finds the beginning of a text in every collation, and equal texts as before. The
# number of indexes stays the same, so storing a handoff costs the same.
TABLE = '"handoffs_handoff"'
FORWARD = f"""
    ALTER TABLE {TABLE} DROP CONSTRAINT "handoff_id_once_per_tenant";
    CREATE UNIQUE INDEX "handoff_id_once_per_tenant" ON {TABLE} ("tenant_id" int8_ops, "handoff_id" varchar_pattern_ops);
    DROP INDEX "handoff_by_trace";
    CREATE INDEX "handoff_by_trace" ON {TABLE} ("tenant_id" int8_ops, "trace_id" varchar_pattern_ops, "id" uuid_ops);
"""
BACKWARD = f"""
    DROP INDEX "handoff_id_once_per_tenant";
    ALTER TABLE {TABLE} ADD CONSTRAINT "handoff_id_once_per_tenant" UNIQUE ("tenant_id", "handoff_id");
    DROP INDEX "handoff_by_trace";
    CREATE INDEX "handoff_by_trace" ON {TABLE} ("tenant_id", "trace_id", "id");
"""


def replace_indexes(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(FORWARD)


def restore_indexes(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(BACKWARD)


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_key_agents"), ("handoffs", "0015_sender_fields")]

    operations = [
        # SQLite has no operator classes and finds the beginning of a text with any index. The state keeps the constraint:
        # its index on PostgreSQL is unique, too.
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunPython(replace_indexes, restore_indexes)],
            state_operations=[
                migrations.RemoveIndex(model_name="handoff", name="handoff_by_trace"),
                migrations.AddIndex(
                    model_name="handoff",
                    index=models.Index(
                        fields=["tenant", "trace_id", "id"],
                        name="handoff_by_trace",
                        opclasses=["int8_ops", "varchar_pattern_ops", "uuid_ops"],
                    ),
                ),
            ],
        )
    ]
