"""Which view a page opens with: a person's own choice, else the one that stands for everybody of the tenant."""

from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from handoffaudit.accounts import audit
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.locking import lock
from handoffaudit.accounts.models import DefaultView, Membership, Person, Role, SavedView, Tenant

OF_A_VIEW = "view.open"


@dataclass(frozen=True, slots=True)
class Defaults:
    """None: nothing is chosen. A row without a view is a choice: the page opens as it is."""

    own: DefaultView | None
    everybodys: DefaultView | None

    @property
    def in_force(self) -> DefaultView | None:
        return self.own or self.everybodys


def of(*, tenant: Tenant, person: Person, page: str) -> Defaults:
    rows = DefaultView.objects.filter(Q(person=None) | Q(person=person), tenant=tenant, page=page)
    found = {row.person_id: row for row in rows.select_related("view")}
    return Defaults(found.get(person.pk), found.get(None))


@transaction.atomic
def choose(
    *, member: Membership, page: str, view: SavedView | None = None, built_in: str = "", everybody: bool = False
) -> None:
    """Neither a view nor a built-in one: the page opens as it is. Raises `Refused`."""
    if everybody and member.role != Role.ADMIN:
        raise Refused("To choose for everybody, you need the role admin.", "everybody")
    if view is not None and view.person_id not in ((None,) if everybody else (None, member.person_id)):
        raise Refused("Others can't open with this view: share it first.", "view")
    tenant = lock(member.tenant)
    person = None if everybody else member.person
    DefaultView.objects.update_or_create(
        tenant=tenant, page=page, person=person, defaults={"view": view, "built_in": built_in}
    )
    if everybody:
        _tell(member, page, view.name if view else built_in)


@transaction.atomic
def forget(*, member: Membership, page: str) -> None:
    """The person opens the page as everybody does, from now on."""
    DefaultView.objects.filter(tenant=member.tenant_id, page=page, person=member.person_id).delete()


def _tell(member: Membership, page: str, name: str) -> None:
    detail = {"view": name} if name else {}
    actor = member.person.get_username()
    audit.record(tenant=member.tenant, actor=actor, action=OF_A_VIEW, target=page, detail=detail)
