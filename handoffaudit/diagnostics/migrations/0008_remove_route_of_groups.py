from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("diagnostics", "0007_merge_groups")]

    operations = [
        # With a default, the columns can be added again to groups when the migration is reversed.
        migrations.AlterField("findinggroup", "source_agent_id", models.CharField(max_length=200, default="")),
        migrations.AlterField("findinggroup", "target_agent_id", models.CharField(max_length=200, default="")),
        migrations.RemoveField("findinggroup", "source_agent_id"),
        migrations.RemoveField("findinggroup", "target_agent_id"),
    ]
