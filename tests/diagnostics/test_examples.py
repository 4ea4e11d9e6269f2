"""Tests of the newest unusable handoff files, with the place of each error."""

from typing import Any

import orjson
import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.diagnostics.reasons import newest_unused
from handoffaudit.handoffs.models import new_id
from tests.diagnostics.support import today

pytestmark = pytest.mark.django_db


def reported(tenant: Tenant, agent: str, reason: str = "json_parse_error", **issue: Any) -> FileReport:
    content = orjson.dumps({"issues": [{"message": "A comma is missing.", **issue}]}).decode()
    return FileReport.objects.create(
        tenant=tenant,
        handoff=new_id(),
        at=timezone.now(),
        agent=agent,
        phase="plan",
        expected_path="run/handoff.json",
        source="text_fallback",
        reason=reason,
        failed=False,
        content=content,
    )


def test_each_agent_is_shown_once_with_its_newest_report(tenant: Tenant, other_tenant: Tenant):
    for _ in range(3):
        reported(tenant, "a")
    newest = reported(tenant, "a", line=7, column=22)
    reported(tenant, "b", path="file.content.next")
    reported(tenant, "c", "file_missing")
    reported(other_tenant, "d")
    found = newest_unused(tenant, today(), "json_parse_error")
    assert [one.report.agent for one in found] == ["b", "a"]
    assert (found[1].report.pk, found[1].message, found[1].place) == (
        newest.pk,
        "A comma is missing.",
        "line 7, column 22",
    )
    assert found[0].place == "file.content.next"


def test_an_answer_without_issues_has_nothing_to_say(tenant: Tenant):
    report = reported(tenant, "a")
    FileReport.objects.filter(pk=report.pk).update(content='{"source": "text_fallback"}')
    [found] = newest_unused(tenant, today(), "json_parse_error")
    assert (found.message, found.place) == ("", "")
