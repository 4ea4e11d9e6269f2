"""Tests of the hash chain of the audit log: entries of an earlier version must still verify."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.apps import apps
from django.conf import settings

from handoffaudit.accounts.models import Tenant
from handoffaudit.cli.main import main

# The file was sealed by 0.1.0 before its release. Never regenerate the file: its hashes are the promise.
SEALED = Path(__file__).parent / "sealed-audit-entries.json"


@pytest.fixture
def verify(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    def verify() -> int:
        monkeypatch.setattr(sys, "argv", ["handoffaudit", "verify-log"])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(str(ended.value.code))

    kept = json.loads(SEALED.read_text())
    sealed = Tenant.objects.create(pk=kept["tenant"], slug="sealed", name="Sealed", audit_number=len(kept["entries"]))
    entries = apps.get_model("accounts.AuditEntry")
    entries.objects.bulk_create(entries(tenant=sealed, **entry) for entry in kept["entries"])
    database = settings.DATA_FOLDER / "handoffaudit.sqlite3"
    database.touch()
    yield verify
    database.unlink()


@pytest.mark.django_db
def test_sealed_entries_stay_proved(verify: Callable[[], int]) -> None:
    assert verify() == 0


@pytest.mark.django_db
def test_a_changed_entry_is_found(verify: Callable[[], int]) -> None:
    apps.get_model("accounts.AuditEntry").objects.filter(number=2).update(action="key.revoke")
    assert verify() == 1
