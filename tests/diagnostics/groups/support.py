"""Handoffs with a finding, and the expected finding groups, counted from the verdicts themselves."""

from collections import Counter
from typing import Any

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.group_members import group_key
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupDay, GroupedHandoff
from handoffaudit.handoffs.models import Handoff, Verdict
from tests.handoffs.support import circular, judged

Counts = dict[tuple[int, str, str, str, str], int]


def found(tenant: Tenant, number: int = 1, **changes: Any) -> list[Handoff]:
    """Submit that many rejected handoffs with one error each, and put their findings into groups."""
    handoffs = [judged(tenant, circular(**changes)) for _ in range(number)]
    attribution.run()
    return handoffs


def group(tenant: Tenant, code: str = "chain.circular", **columns: object) -> FindingGroup:
    return FindingGroup.objects.get(tenant=tenant, code=code, **columns)


def kept() -> Counter[tuple[int, str, str, str, str]]:
    return Counter(
        {
            (one.tenant_id, one.code, one.path_shape, one.source_agent_id, one.target_agent_id): one.number
            for one in FindingGroup.objects.filter(number__gt=0)
        }
    )


def true() -> Counter[tuple[int, str, str, str, str]]:
    counts: Counter[tuple[int, str, str, str, str]] = Counter()
    for handoff in Handoff.objects.filter(verdict__isnull=False):
        issues = orjson.loads(Verdict.objects.get(pk=handoff.verdict).content)["issues"]
        agents = (handoff.source_agent_id, handoff.target_agent_id)
        counts.update(
            {
                (handoff.tenant_id, *group_key(issue["code"], issue["field_path"] or "", *agents))
                for issue in issues
                if issue["severity"] != "info" and issue["code"] != "semantic.unavailable"
            }
        )
    return counts


def assert_groups_are_right() -> None:
    """Check that the numbers, members and days of all finding groups agree with the current verdicts."""
    assert kept() == true()
    members = Counter(GroupedHandoff.objects.values_list("group", flat=True))
    days: Counter[int] = Counter()
    for row in FindingGroupDay.objects.all():
        assert row.number >= 0
        days[row.group_id] += row.number
    for one in FindingGroup.objects.all():
        assert one.number == members[one.pk] == days[one.pk]
