"""Counts by day, filled from those by hour."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

_OUTCOMES = {
    "accepted": "'accepted'",
    "decided": "'approved'",
    "stopped": "'rejected', 'held', 'declined'",
    "superseded": "'superseded'",
}


def fill(_: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    day = "CAST(hour AT TIME ZONE 'UTC' AS date)" if editor.connection.vendor == "postgresql" else "date(hour)"
    sums = ", ".join(f"SUM(CASE WHEN state IN ({states}) THEN number ELSE 0 END)" for states in _OUTCOMES.values())
    for table, keys, which in (
        ("handoffs_dailycount", "tenant_id, code, {day}, source_agent_id, handoff_type", ""),
        ("handoffs_dailypair", "tenant_id, {day}, source_agent_id, target_agent_id", "WHERE code = ''"),
    ):
        if editor.connection.vendor == "postgresql":
            # A day's rows are added to by every batch: with room beside them no index grows with it.
            editor.execute(f"ALTER TABLE {table} SET (fillfactor = 60)")
        columns = f"{keys.format(day='day')}, {', '.join(_OUTCOMES)}"
        found = f"SELECT {keys.format(day=day)}, {sums} FROM handoffs_hourlycount {which} GROUP BY {keys.format(day=day)}"
        editor.execute(f"INSERT INTO {table} ({columns}) {found}")


def _outcomes() -> list[tuple[str, models.Field]]:
    return [
        ("day", models.DateField()),
        ("source_agent_id", models.CharField(max_length=200)),
        *((name, models.BigIntegerField(default=0)) for name in _OUTCOMES),
    ]


def _beside(name: str) -> list[tuple[str, models.Field]]:
    made = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
    tenant = models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.DO_NOTHING,
        to="accounts.tenant",
    )
    return [("id", made), ("tenant", tenant), *_outcomes(), (name, models.CharField(max_length=200))]


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_saved_views"), ("handoffs", "0007_review")]

    operations = [
        migrations.CreateModel(
            name="DailyCount",
            fields=[*_beside("handoff_type"), ("code", models.CharField(blank=True, max_length=100))],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "code", "day", "source_agent_id", "handoff_type"), name="one_daily_count"
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="DailyPair",
            fields=_beside("target_agent_id"),
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "day", "source_agent_id", "target_agent_id"), name="one_daily_pair"
                    )
                ]
            },
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
