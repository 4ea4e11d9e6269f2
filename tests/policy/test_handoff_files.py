"""Tests of the policy that requires a handoff file."""

from typing import Any

import pytest

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.policy.kinds import file_policy
from handoffaudit.policy.strictness import HandoffFilesPolicy
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import Stale


@pytest.mark.django_db
def test_it_is_off_as_shipped_and_versioned_as_every_policy(tenant: Tenant, other_tenant: Tenant) -> None:
    assert file_policy.current(tenant).rows == (HandoffFilesPolicy(strict_handoff_files=False),)
    rows = file_policy.parse([{"strict_handoff_files": True}])
    saved = file_policy.save(tenant=tenant, base_version=0, rows=rows, actor="ada", note="why")
    assert (saved.version, saved.rows[0].strict_handoff_files, saved.changed_by) == (1, True, "ada")
    assert file_policy.current(other_tenant).version == 0
    assert file_policy.save(tenant=tenant, base_version=1, rows=rows, actor="ada").version == 1
    with pytest.raises(Stale):
        file_policy.save(tenant=tenant, base_version=0, rows=rows, actor="bob")
    reverted = file_policy.revert(tenant=tenant, to_version=0, base_version=1, actor="bob")
    assert (reverted.version, reverted.rows[0].strict_handoff_files) == (2, False)
    assert [change.changes[0].field for change in file_policy.history(tenant)[:2]] == ["strict_handoff_files"] * 2
    assert AuditEntry.objects.filter(tenant=tenant, action="handoff_files.save").count() == 2


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{}], "neither on nor off"),
        ([{"strict_handoff_files": "yes"}], "neither on nor off"),
        ([{"strict_handoff_files": True, "strict": True}], "no such field"),
        ([], "not 0"),
        ([{"strict_handoff_files": True}] * 2, "not 2"),
    ],
)
def test_what_cannot_be_read_is_told(rows: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(InvalidPolicy, match=said):
        file_policy.parse(rows)
