from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_default_views"),
        ("handoffs", "0010_proposal_replaced"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("to_state__in", ("approved", "declined"))),
                fields=["tenant", "actor"],
                name="event_decider",
            ),
        ),
    ]
