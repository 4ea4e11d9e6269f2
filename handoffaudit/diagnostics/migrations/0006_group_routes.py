import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("diagnostics", "0005_log_parts")]

    operations = [
        migrations.CreateModel(
            name="FindingGroupRoute",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("source_agent_id", models.CharField(max_length=200)),
                ("target_agent_id", models.CharField(max_length=200)),
                ("number", models.BigIntegerField()),
                (
                    "group",
                    models.ForeignKey(
                        db_index=False, on_delete=django.db.models.deletion.CASCADE, to="diagnostics.findinggroup"
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["group", "number", "id"], name="group_route_by_number"),
                    models.Index(fields=["group", "target_agent_id"], name="group_route_by_target"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("group", "source_agent_id", "target_agent_id"), name="one_group_route"
                    )
                ],
            },
        ),
    ]
