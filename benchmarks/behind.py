"""Rows that the background pass after judging would store for filled handoffs.

The rows are the traced handoffs, the attribution of each finding to an agent, and the finding groups.
"""

import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from django.db import transaction

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.attribution import MARK
from handoffaudit.diagnostics.group_members import GroupKey, group_key
from handoffaudit.diagnostics.models import (
    Attribution,
    FindingGroup,
    FindingGroupDay,
    GroupedHandoff,
    TracedHandoff,
    Watermark,
)
from handoffaudit.handoffs import db

PATH = "handoff.payload"
GRAVE = "error"

_TRACED = db.Columns.of(
    TracedHandoff,
    *("handoff", "tenant", "trace_id", "at", "source_agent_id", "target_agent_id", "took_seconds"),
    *("caused", "passed_on", "verdict", "grouped"),
)
_ATTRIBUTION = db.Columns.of(
    Attribution, "tenant", "trace_id", "handoff", "at", "agent", "code", "field_path", "value", "caused", "origin"
)
_MEMBER = db.Columns.of(GroupedHandoff, "tenant", "group", "handoff", "decisive")
_DAY = db.Columns.of(FindingGroupDay, "group", "day", "number")


class Behind:
    """Writer of the rows; the handoffs must be added in the order of their receipt."""

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._groups: dict[GroupKey, FindingGroup] = {}
        self._days: Counter[tuple[GroupKey, date]] = Counter()
        self._traced: list[list[Any]] = []
        self._attributions: list[list[Any]] = []
        self._members: list[tuple[GroupKey, uuid.UUID, bool]] = []

    def add(self, pk: uuid.UUID, at: datetime, values: dict[str, Any], findings: Iterable[tuple[str, str]]) -> None:
        """Add a handoff; `findings` are pairs of rule code and severity."""
        found = list(findings)
        source, target, trace = (values[name] for name in ("source_agent_id", "target_agent_id", "trace_id"))
        tenant = self._tenant.pk
        took = 2.5 if values["step"] else None
        self._traced.append([pk, tenant, trace, at, source, target, took, len(found), 0, values["verdict"], True])
        gravest = any(severity == GRAVE for _, severity in found)
        for code, severity in found:
            self._attributions.append([tenant, trace, pk, at, source, code, PATH, "", True, None])
            place = group_key(code, PATH)
            self._count(place, at)
            self._members.append((place, pk, severity == GRAVE or not gravest))

    def _count(self, place: GroupKey, at: datetime) -> None:
        self._days[place, at.date()] += 1
        group = self._groups.get(place)
        if group is None:
            group = FindingGroup(tenant=self._tenant, key=place.key, first_seen=at, **place._asdict())
            self._groups[place] = group
        group.number += 1
        group.last_seen = at

    def write(self) -> None:
        """Write the rows that were added since the last write, except the finding groups."""
        with transaction.atomic():
            db.insert_rows(_TRACED, self._traced)
            db.insert_rows(_ATTRIBUTION, self._attributions)
        self._traced, self._attributions = [], []

    def finish(self, until: datetime) -> None:
        self.write()
        with transaction.atomic():
            FindingGroup.objects.bulk_create(self._groups.values(), batch_size=500)
            keys = {place: group.pk for place, group in self._groups.items()}
            tenant = self._tenant.pk
            db.insert_rows(_MEMBER, [[tenant, keys[place], pk, decisive] for place, pk, decisive in self._members])
            db.insert_rows(_DAY, [[keys[place], day, number] for (place, day), number in self._days.items()])
            Watermark.objects.update_or_create(name=MARK, defaults={"at": until})
