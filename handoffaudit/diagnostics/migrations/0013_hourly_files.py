import django.db.models.deletion
from django.db import migrations, models


def fill(apps, schema_editor):
    schema_editor.execute(
        """INSERT INTO diagnostics_hourlyfilecount (tenant_id, hour, source, reason, fallback, number)
            SELECT tenant_id, hour, source, reason, fallback, CAST(SUM(number) AS bigint)
            FROM diagnostics_healthcount GROUP BY 1, 2, 3, 4, 5"""
    )


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0006_time_zone'),
        ('diagnostics', '0012_daily_files'),
    ]

    operations = [
        migrations.CreateModel(
            name='HourlyFileCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('source', models.CharField(max_length=20)),
                ('reason', models.CharField(blank=True, max_length=20)),
                ('fallback', models.CharField(blank=True, max_length=20)),
                ('number', models.BigIntegerField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'hour', 'source', 'reason', 'fallback'), name='one_hourly_file_count')],
            },
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
