"""Handoffs with a finding, and the expected finding groups, counted from the verdicts themselves."""

from collections import Counter
from typing import Any

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.group_members import group_key
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupDay, FindingGroupRoute, GroupedHandoff
from handoffaudit.handoffs.models import Handoff, Verdict
from tests.handoffs.support import circular, judged


def found(tenant: Tenant, number: int = 1, **changes: Any) -> list[Handoff]:
    """Submit that many rejected handoffs with one error each, and put their findings into groups."""
    handoffs = [judged(tenant, circular(**changes)) for _ in range(number)]
    attribution.run()
    return handoffs


def group(tenant: Tenant, code: str = "chain.circular", **columns: object) -> FindingGroup:
    return FindingGroup.objects.get(tenant=tenant, code=code, **columns)


def kept() -> Counter[tuple[int, str, str]]:
    return Counter(
        {(one.tenant_id, one.code, one.path_shape): one.number for one in FindingGroup.objects.filter(number__gt=0)}
    )


def true() -> Counter[tuple[int, str, str]]:
    counts: Counter[tuple[int, str, str]] = Counter()
    for handoff in Handoff.objects.filter(verdict__isnull=False):
        issues = orjson.loads(Verdict.objects.get(pk=handoff.verdict).content)["issues"]
        counts.update(
            {
                (handoff.tenant_id, *group_key(issue["code"], issue["field_path"] or ""))
                for issue in issues
                if issue["severity"] != "info" and issue["code"] != "semantic.unavailable"
            }
        )
    return counts


def assert_groups_are_right() -> None:
    """Check that the numbers, members, days and routes of all finding groups agree with the current verdicts."""
    assert kept() == true()
    members = Counter(GroupedHandoff.objects.values_list("group", flat=True))
    days: Counter[int] = Counter()
    for row in FindingGroupDay.objects.all():
        assert row.number >= 0
        days[row.group_id] += row.number
    for one in FindingGroup.objects.all():
        assert one.number == members[one.pk] == days[one.pk]
        assert routes(one) == true_routes(one)


def routes(group: FindingGroup) -> Counter[tuple[str, str]]:
    """Return the stored numbers of a group by source and target."""
    rows = FindingGroupRoute.objects.filter(group=group, number__gt=0)
    return Counter({(row.source_agent_id, row.target_agent_id): row.number for row in rows})


def true_routes(group: FindingGroup) -> Counter[tuple[str, str]]:
    members = GroupedHandoff.objects.filter(group=group).values("handoff")
    return Counter(Handoff.objects.filter(pk__in=members).values_list("source_agent_id", "target_agent_id"))
