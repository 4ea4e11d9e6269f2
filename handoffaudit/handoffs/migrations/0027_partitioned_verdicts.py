from django.db import migrations

from handoffaudit.handoffs import partitions


def partition(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        partitions.partition("handoffs_verdict")


class Migration(migrations.Migration):
    # Validating a constraint takes as long as reading the table, and must not lock it for that time.
    atomic = False
    dependencies = [("handoffs", "0026_hourly_sources")]

    # An older version works with the partitioned table, too.
    operations = [migrations.RunPython(partition, migrations.RunPython.noop)]
