from django.db import migrations, models

DELETE = "DELETE FROM handoffs_hourlysource"
FILL = """
    INSERT INTO handoffs_hourlysource
        (tenant_id, hour, source_agent_id, accepted, decided, stopped, superseded)
    SELECT tenant_id, hour, source_agent_id,
        SUM(CASE WHEN state = 'accepted' THEN number ELSE 0 END),
        SUM(CASE WHEN state = 'approved' THEN number ELSE 0 END),
        SUM(CASE WHEN state IN ('rejected', 'held', 'declined') THEN number ELSE 0 END),
        SUM(CASE WHEN state = 'superseded' THEN number ELSE 0 END)
    FROM handoffs_hourlycount WHERE code = '' GROUP BY tenant_id, hour, source_agent_id HAVING SUM(number) > 0
"""


class Migration(migrations.Migration):

    dependencies = [
        ('handoffs', '0033_judge_leases'),
    ]

    operations = [
        migrations.RunSQL(DELETE, migrations.RunSQL.noop),
        migrations.RemoveField(model_name='hourlysource', name='number'),
        migrations.AddField(model_name='hourlysource', name='accepted', field=models.BigIntegerField(default=0)),
        migrations.AddField(model_name='hourlysource', name='decided', field=models.BigIntegerField(default=0)),
        migrations.AddField(model_name='hourlysource', name='stopped', field=models.BigIntegerField(default=0)),
        migrations.AddField(model_name='hourlysource', name='superseded', field=models.BigIntegerField(default=0)),
        migrations.AddIndex(
            model_name='hourlysource',
            index=models.Index(fields=['tenant', 'hour'], name='hourly_source_by_hour'),
        ),
        # After a reversal, `handoffaudit recount` fills the table.
        migrations.RunSQL(FILL, DELETE),
    ]
