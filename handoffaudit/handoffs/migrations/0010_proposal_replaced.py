from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("handoffs", "0009_removed_documents"),
    ]

    operations = [
        migrations.AddField(
            model_name="proposal",
            name="replaced",
            field=models.JSONField(null=True),
        ),
    ]
