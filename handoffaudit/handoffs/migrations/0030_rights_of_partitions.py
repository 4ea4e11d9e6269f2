import django.db.models.deletion
from django.db import migrations, models

from handoffaudit.handoffs import partitions

DROP = 'ALTER TABLE "handoffs_reviewhold" DROP CONSTRAINT IF EXISTS "{name}"'
FIND = """
    SELECT conname FROM pg_constraint WHERE contype = 'f'
    AND conrelid = to_regclass('handoffs_reviewhold') AND confrelid = to_regclass('handoffs_handoff')
"""


def prepare(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(FIND)
        names = cursor.fetchall()
    for (name,) in names:
        # The statement locks the table of handoffs, which other processes use meanwhile.
        partitions.execute_when_free(DROP.format(name=name))
    # The migrations that made the partitions lost the rights of other roles.
    for table in ("handoffs_handoffbody", "handoffs_verdict"):
        partitions.restore_rights(table)


class InTransaction(migrations.AlterField):
    # On SQLite, the operation makes the table anew. On PostgreSQL, the operation does nothing.
    atomic = True


class Migration(migrations.Migration):
    # Within one transaction, the lock of the table of handoffs would last until all steps are done. Each step can be
    # repeated.
    atomic = False
    dependencies = [
        ('handoffs', '0029_state_statistics'),
    ]

    operations = [
        migrations.RunPython(prepare, migrations.RunPython.noop),
        InTransaction(
            model_name='reviewhold',
            name='handoff',
            field=models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, serialize=False, to='handoffs.handoff'),
        ),
    ]
