"""A row switched between shadow and enforce in place: what that would do is shown before it is saved."""

from dataclasses import dataclass, replace

from django.http import QueryDict

from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.policies.drafts import line_of, number
from handoffaudit.dashboard.policies.pages import unchanged
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.versions import Table
from handoffaudit.validation.config import Mode, TypePolicy


@dataclass(slots=True)
class Switch:
    """`row` is to become `to`; `base_version`: the table that was looked at."""

    row: str
    to: Mode
    base_version: int
    note: str = ""

    @property
    def enforces(self) -> bool:
        return self.to is Mode.ENFORCE

    def save(self, who: Who) -> Table[TypePolicy]:
        """The table with that row switched. Raises `Stale`, and `InvalidPolicy` where there is no such row."""
        now = unchanged(strictness, who, self.base_version)
        row = now.row(self.row)
        if row is None:
            raise InvalidPolicy([PolicyError(self.row, "", None, "There is no such row.", "Add it first.")])
        return strictness.upsert_row(
            tenant=who.tenant,
            base_version=self.base_version,
            row=replace(row, mode=self.to),
            actor=who.person.username,
            note=self.note,
        )


def switch_for(now: Table[TypePolicy], row: TypePolicy) -> Switch:
    """To the other mode than it has."""
    to = Mode.ENFORCE if row.mode is Mode.SHADOW else Mode.SHADOW
    return Switch(row.handoff_type, to, now.version)


def switch_from(given: QueryDict) -> Switch | None:
    """What a person sent; None where it names no mode."""
    base = number(given.get("base_version", ""))
    try:
        to = Mode(given.get("to", ""))
    except ValueError:
        return None
    return Switch(line_of(given, "row"), to, -1 if base is None else base, line_of(given, "note"))
