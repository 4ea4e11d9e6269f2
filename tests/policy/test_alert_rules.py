"""Tests of the policy of alert rules: always the same four, each with sensible levels."""

import pytest

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.policy.alert_rules import AS_SHIPPED, NoData, Watched, parse_row, parse_rows
from handoffaudit.policy.kinds import alert_policy
from handoffaudit.policy.values import InvalidPolicy, to_plain


def test_as_shipped_only_what_everybody_wants_is_watched() -> None:
    assert {row.name for row in AS_SHIPPED if row.on} == {Watched.QUEUE_AGE, Watched.OVERDUE_HOLDS}
    assert [row.name for row in AS_SHIPPED] == list(Watched)
    assert parse_rows([to_plain(row) for row in AS_SHIPPED]) == AS_SHIPPED


def test_what_is_not_given_is_as_shipped() -> None:
    rows = parse_rows([{"name": "queue_age", "on": False, "no_data": "keep"}])
    assert [row.name for row in rows] == list(Watched)
    assert (rows[1].on, rows[1].no_data, rows[1].alert) == (False, NoData.KEEP, AS_SHIPPED[1].alert)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("on", "yes"),
        ("warning", 0),
        ("warning", "0.5"),
        ("warning", True),
        ("alert", 1.5),
        ("alert", float("nan")),
        ("alert", 0.4),
        ("window_minutes", 4),
        ("window_minutes", 5.5),
        ("minimum", 0),
        ("no_data", "panic"),
        ("clear_minutes", -1),
        ("renotify_minutes", 9),
        ("colour", "red"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(field: str, value: object) -> None:
    with pytest.raises(InvalidPolicy) as invalid:
        parse_row({"name": "rejection_rate", field: value})
    assert [(error.row, error.field) for error in invalid.value.errors] == [("rejection_rate", field)]
    assert invalid.value.errors[0].remedy


def test_a_name_that_is_not_watched_is_refused() -> None:
    for name in ("moods", None, 3):
        with pytest.raises(InvalidPolicy, match="no alert rule of that name"):
            parse_row({"name": name})
    with pytest.raises(InvalidPolicy, match="alert rule has two rows"):
        parse_rows([{"name": "queue_age"}] * 2)


def test_a_change_is_a_version_and_an_audit_entry(tenant: Tenant) -> None:
    row = parse_row({"name": "queue_age", "warning": 60})
    saved = alert_policy.upsert_row(tenant=tenant, base_version=0, row=row, actor="ada")
    assert (saved.version, [one.name for one in saved.rows]) == (1, list(Watched))
    entry = AuditEntry.objects.get()
    assert entry.action == "thresholds.save"
    assert entry.detail["changes"] == [{"row": "queue_age", "field": "warning", "old": 300, "new": 60}]
    assert alert_policy.revert(tenant=tenant, to_version=0, base_version=1, actor="ada").rows == AS_SHIPPED
