"""Documents and verdicts are compressed with lz4 where the server has it: its default costs more than the rest of an insert."""

from django.db import migrations

SET_LZ4 = """
    DO $$ BEGIN
        ALTER TABLE handoffs_handoffbody ALTER COLUMN original SET COMPRESSION lz4;
        ALTER TABLE handoffs_handoffbody ALTER COLUMN context SET COMPRESSION lz4;
        ALTER TABLE handoffs_handoffbody ALTER COLUMN evidence SET COMPRESSION lz4;
        ALTER TABLE handoffs_handoffbody ALTER COLUMN lifted SET COMPRESSION lz4;
        ALTER TABLE handoffs_verdict ALTER COLUMN content SET COMPRESSION lz4;
    EXCEPTION WHEN feature_not_supported THEN NULL;
    END $$
"""


def compress(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(SET_LZ4)


class Migration(migrations.Migration):
    dependencies = [("handoffs", "0001_initial")]
    operations = [migrations.RunPython(compress, migrations.RunPython.noop)]
