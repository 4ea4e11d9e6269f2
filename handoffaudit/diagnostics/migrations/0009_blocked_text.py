import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_key_agents"), ("diagnostics", "0008_remove_route_of_groups")]

    # The index of the words is created after the migrations, by `diagnostics.text_index.create_index`.
    operations = [
        migrations.CreateModel(
            name="BlockedText",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("handoff", models.UUIDField(unique=True)),
                ("words", models.TextField()),
                (
                    "tenant",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        to="accounts.tenant",
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["tenant", "id"], name="blocked_text_by_tenant")]},
        ),
    ]
