"""The operation of migrations that adds an index while other processes write."""

from typing import Any

from django.db import migrations


class AddIndexConcurrently(migrations.AddIndex):
    """Add an index while other processes write. An index that an interruption left incomplete is made anew."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        is_postgresql = schema_editor.connection.vendor == "postgresql"
        how = "CONCURRENTLY " if is_postgresql else ""
        schema_editor.execute(f'DROP INDEX {how}IF EXISTS "{self.index.name}"')
        if is_postgresql:
            model = to_state.apps.get_model(app_label, self.model_name)
            schema_editor.add_index(model, self.index, concurrently=True)
        else:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
