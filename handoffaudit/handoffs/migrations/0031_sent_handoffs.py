from django.db import migrations, models


class AddIndexConcurrently(migrations.AddIndex):
    """Add an index while other processes write. An index that an interruption left incomplete is made anew."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        is_postgresql = schema_editor.connection.vendor == "postgresql"
        schema_editor.execute(f'DROP INDEX {"CONCURRENTLY " if is_postgresql else ""}IF EXISTS "{self.index.name}"')
        if is_postgresql:
            model = to_state.apps.get_model(app_label, self.model_name)
            schema_editor.add_index(model, self.index, concurrently=True)
        else:
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):
    # PostgreSQL does not make an index concurrently in a transaction.
    atomic = False
    dependencies = [
        ('accounts', '0006_time_zone'),
        ('handoffs', '0030_rights_of_partitions'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='handoff',
            index=models.Index(condition=models.Q(('sent_at__isnull', False)), fields=['tenant', 'received_at'], name='handoff_sent'),
        ),
    ]
