from django.db import migrations, models

from handoffaudit.handoffs.migrations._concurrent_index import AddIndexConcurrently


class Migration(migrations.Migration):
    # PostgreSQL does not make an index concurrently in a transaction.
    atomic = False
    dependencies = [
        ('handoffs', '0034_outcomes_of_hourly_sources'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='handoff',
            index=models.Index(condition=models.Q(('state', 'held')), fields=['tenant', 'state', 'id', 'review_due_at'], name='handoff_held'),
        ),
    ]
