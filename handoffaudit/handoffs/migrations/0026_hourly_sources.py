import django.db.models.deletion
from django.db import migrations, models

FILL = """
    INSERT INTO handoffs_hourlysource (tenant_id, hour, source_agent_id, number)
    SELECT tenant_id, hour, source_agent_id, SUM(number) FROM handoffs_hourlycount
    WHERE code = '' GROUP BY tenant_id, hour, source_agent_id HAVING SUM(number) > 0
"""


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0005_key_agents'),
        ('handoffs', '0025_policy_cases'),
    ]

    operations = [
        migrations.CreateModel(
            name='HourlySource',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('source_agent_id', models.CharField(max_length=200)),
                ('number', models.BigIntegerField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'source_agent_id', 'hour'), name='one_hourly_source')],
            },
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
