"""Saved views, which are named filters of a page, and the default view, which the page shows first."""

from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Q

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import DefaultView, Membership, Person, Role, SavedView, Tenant

MOST_VIEWS = 50

LONGEST_NAME = 60

LONGEST_QUERY = 2000


def list_views(*, tenant: Tenant, person: Person, page: str) -> list[SavedView]:
    """Return the views that the person may open on the page: shared views by name, then the person's own by name."""
    views = SavedView.objects.filter(tenant=tenant, page=page)
    seen = list(views.filter(Q(person=None) | Q(person=person)).order_by("name", "pk")[: 2 * MOST_VIEWS])
    return [*(one for one in seen if one.person_id is None), *(one for one in seen if one.person_id is not None)]


def may_change(view: SavedView, member: Membership) -> bool:
    """Return whether the member may change a view.

    Everybody may change their own views. A reviewer may also change the shared views that the reviewer created, an
    administrator all shared views.
    """
    if view.person_id is not None:
        return view.person_id == member.person_id
    made = view.created_by == member.person.get_username()
    role = Role(member.role)
    return role.includes(Role.ADMIN) or (role.includes(Role.REVIEWER) and made)


@transaction.atomic
def save(*, member: Membership, page: str, name: str, query: str, shared: bool) -> SavedView:
    """Save a query as a view. Raise `Refused` if the view cannot be saved.

    The caller has checked that the page accepts the query.
    """
    if shared and not Role(member.role).includes(Role.REVIEWER):
        raise Refused("To share a view with everybody, you need the role reviewer.", "shared")
    # The lock makes saves wait for each other, so that there are never more than `MOST_VIEWS` views.
    tenant = lock_tenant(member.tenant)
    person = None if shared else member.person
    kept = SavedView.objects.filter(tenant=tenant, page=page, person=person)
    if kept.count() >= MOST_VIEWS:
        raise Refused(f"There are {MOST_VIEWS} saved views of this page already: delete one first.", "name")
    view = SavedView(
        tenant=tenant,
        person=person,
        page=page,
        name=_check_name(name),
        query=_check_query(query),
        created_by=member.person.get_username(),
    )
    _store(view)
    _record(view, member, "view.share")
    return view


@transaction.atomic
def rename(*, member: Membership, pk: int, name: str) -> SavedView:
    """Rename a view.

    Raise `Refused` for a name that cannot be used, and `SavedView.DoesNotExist` if there is no such view or the member
    may not change it.
    """
    view = _get_changeable(member, pk)
    before, view.name = view.name, _check_name(name)
    _store(view)
    _record(view, member, "view.rename", before=before)
    return view


@transaction.atomic
def update(*, member: Membership, pk: int, query: str) -> SavedView:
    """Replace the filters of a view.

    Raise `Refused` for a query that is too long, and `SavedView.DoesNotExist` if there is no such view or the member
    may not change it.
    """
    view = _get_changeable(member, pk)
    before, view.query = view.query, _check_query(query)
    _store(view)
    _record(view, member, "view.change", before=before)
    return view


@transaction.atomic
def delete(*, member: Membership, pk: int) -> SavedView:
    """Delete a view. Raise `SavedView.DoesNotExist` if there is no such view or the member may not change it."""
    view = _get_changeable(member, pk)
    _record(view, member, "view.delete")
    SavedView.objects.filter(pk=view.pk).delete()
    return view


def _get_changeable(member: Membership, pk: int) -> SavedView:
    # Like `save`, lock the tenant before the view, so that two changes cannot deadlock.
    lock_tenant(member.tenant)
    view = SavedView.objects.select_for_update().get(pk=pk, tenant=member.tenant_id)
    if not may_change(view, member):
        raise SavedView.DoesNotExist("There is no such view, or it is somebody else's.")
    return view


def _store(view: SavedView) -> None:
    try:
        with transaction.atomic():
            view.save()
    except IntegrityError as taken:
        raise Refused(f"There is a view named {view.name!r} here already: choose another name.", "name") from taken


def _record(view: SavedView, member: Membership, action: str, **more: str) -> None:
    """Record a change of a shared view. Changes of a person's own views are private and not recorded."""
    if view.person_id is None:
        detail = {"page": view.page, "query": view.query, **more}
        actor = member.person.get_username()
        audit.record(tenant=member.tenant, actor=actor, action=action, target=view.name, detail=detail)


def _check_name(name: str) -> str:
    clean = " ".join(name.split())
    if not clean or len(clean) > LONGEST_NAME or not clean.isprintable():
        raise Refused(f"Give the view a name of 1 to {LONGEST_NAME} printable characters.", "name")
    return clean


def _check_query(query: str) -> str:
    if len(query) > LONGEST_QUERY:
        raise Refused("These filters are too long to save: remove some of them.", "query")
    return query


DEFAULT_CHANGED = "view.open"


@dataclass(frozen=True, slots=True)
class Defaults:
    """The default views of a page, for the person and for everybody; None means that no default was chosen.

    A `DefaultView` with neither `view` nor `built_in` is a choice as well: the page opens without filters.
    """

    own: DefaultView | None
    everybodys: DefaultView | None

    @property
    def in_force(self) -> DefaultView | None:
        return self.own or self.everybodys


def load_defaults(*, tenant: Tenant, person: Person, page: str) -> Defaults:
    rows = DefaultView.objects.filter(Q(person=None) | Q(person=person), tenant=tenant, page=page)
    found = {row.person_id: row for row in rows.select_related("view")}
    return Defaults(found.get(person.pk), found.get(None))


@transaction.atomic
def choose_default(
    *, member: Membership, page: str, view: SavedView | None = None, built_in: str = "", everybody: bool = False
) -> None:
    """Choose the default view of a page; with neither `view` nor `built_in`, the page opens without filters.

    Raise `Refused` if the member may not choose for everybody, or if the choice is for people who cannot see the view.
    """
    if everybody and not Role(member.role).includes(Role.ADMIN):
        raise Refused("To choose for everybody, you need the role admin.", "everybody")
    if view is not None and view.person_id not in ((None,) if everybody else (None, member.person_id)):
        raise Refused("Other people cannot see this view: share it first.", "view")
    tenant = lock_tenant(member.tenant)
    person = None if everybody else member.person
    DefaultView.objects.update_or_create(
        tenant=tenant, page=page, person=person, defaults={"view": view, "built_in": built_in}
    )
    if everybody:
        _record_default(member, page, view.name if view else built_in)


@transaction.atomic
def forget_default(*, member: Membership, page: str) -> None:
    """Delete the person's own default view of a page, so that the default view for everybody applies."""
    DefaultView.objects.filter(tenant=member.tenant_id, page=page, person=member.person_id).delete()


def _record_default(member: Membership, page: str, name: str) -> None:
    detail = {"view": name} if name else {}
    actor = member.person.get_username()
    audit.record(tenant=member.tenant, actor=actor, action=DEFAULT_CHANGED, target=page, detail=detail)
