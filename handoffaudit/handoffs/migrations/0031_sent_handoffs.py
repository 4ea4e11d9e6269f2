from django.db import migrations, models

from handoffaudit.handoffs.migrations._concurrent_index import AddIndexConcurrently


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
