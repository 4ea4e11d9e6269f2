from django.db import migrations, models

import handoffaudit.handoffs.models.integrations


class Migration(migrations.Migration):

    dependencies = [
        ('handoffs', '0032_replaced_assignments'),
    ]

    operations = [
        migrations.CreateModel(
            name='JudgeLease',
            fields=[
                ('token', models.UUIDField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('expires_at', models.DateTimeField()),
                ('handoffs', handoffaudit.handoffs.models.integrations.HandoffKeys()),
            ],
        ),
    ]
