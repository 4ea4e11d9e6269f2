from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('handoffs', '0027_partitioned_verdicts'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='event',
            index=models.Index(
                fields=['handoff'],
                condition=models.Q(('from_state__in', ('approved', 'declined')), ('to_state__in', ('held', 'rejected'))),
                name='event_undone',
            ),
        ),
    ]
