from django.db import migrations

# PostgreSQL assumes that tenants and states are independent. So if many handoffs of one tenant wait, PostgreSQL expects
# as many in every other tenant, and reads the whole table for the few that wait there.
FORWARD = """
    CREATE STATISTICS "handoff_states" (mcv) ON "tenant_id", "state" FROM "handoffs_handoff";
    ANALYZE "handoffs_handoff" ("tenant_id", "state");
"""
BACKWARD = 'DROP STATISTICS "handoff_states"'


def add_statistics(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(FORWARD)


def remove_statistics(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(BACKWARD)


class Migration(migrations.Migration):

    dependencies = [
        ('handoffs', '0028_undone_decisions'),
    ]

    operations = [migrations.RunPython(add_statistics, remove_statistics)]
