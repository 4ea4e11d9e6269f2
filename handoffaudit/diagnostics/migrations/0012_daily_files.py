import django.db.models.deletion
from django.db import migrations, models

_MISSING = "reason NOT IN ('file_missing', 'json_parse_error', 'schema_invalid')"
_USED = "(source = 'handoff_json' AND reason = '' AND fallback = '')"
_READ = "(fallback = 'text_fallback_ok' OR reason = 'text_fallback_ok')"
_FAILED = "(fallback = 'text_fallback_fail' OR reason = 'text_fallback_fail')"
_NO_REASON = f"(NOT {_USED} AND {_MISSING})"
NUMBERS = {
    "used": _USED,
    "file_missing": "reason = 'file_missing'",
    "json_parse_error": "reason = 'json_parse_error'",
    "schema_invalid": "reason = 'schema_invalid'",
    "other": f"{_NO_REASON} AND NOT {_READ} AND NOT {_FAILED}",
    "fallback_ok": _READ,
    "fallback_failed": _FAILED,
    "text_fallback_ok": f"{_NO_REASON} AND {_READ}",
    "text_fallback_fail": f"{_NO_REASON} AND {_FAILED} AND NOT {_READ}",
}


def fill(apps, schema_editor):
    on_postgresql = schema_editor.connection.vendor == "postgresql"
    day = "CAST(hour AT TIME ZONE 'UTC' AS date)" if on_postgresql else "strftime('%Y-%m-%d', hour)"
    sums = ", ".join(f"SUM(CASE WHEN {condition} THEN number ELSE 0 END)" for condition in NUMBERS.values())
    schema_editor.execute(
        f"""INSERT INTO diagnostics_dailyfilecount (tenant_id, day, agent, phase, runtime, {", ".join(NUMBERS)})
            SELECT tenant_id, {day} AS day, agent, phase, runtime, {sums}
            FROM diagnostics_healthcount GROUP BY 1, 2, 3, 4, 5"""
    )


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0006_time_zone'),
        ('diagnostics', '0011_erasures'),
    ]

    operations = [
        migrations.CreateModel(
            name='DailyFileCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('agent', models.CharField(max_length=200)),
                ('phase', models.CharField(max_length=200)),
                ('runtime', models.CharField(blank=True, max_length=200)),
                *((name, models.BigIntegerField(default=0)) for name in NUMBERS),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'phase', 'agent'], name='daily_files_by_pair')],
                'constraints': [models.UniqueConstraint(fields=('tenant', 'day', 'agent', 'phase', 'runtime'), name='one_daily_file_count')],
            },
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name='healthcount', name='health_count_by_pair'),
    ]
