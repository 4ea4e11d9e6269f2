"""The people of a tenant: invitations, one-time links, roles and removal."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts import Refused, people
from handoffaudit.accounts.models import RIGHTS, Person, Role
from handoffaudit.accounts.people import Invitation
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.settings import keys


@require_role(Role.ADMIN)
@require_safe
def people_page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    about, link = keys.take_secret(request, who, "link")
    invitation = Invitation(_person(who, int(about)), link) if link else None
    return _page(request, who, invitation=invitation)


@require_role(Role.ADMIN)
@require_POST
def invite(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    name, role = request.POST.get("name", ""), _role(request)
    try:
        invitation = people.invite(tenant=who.tenant, name=name, role=role, actor=who.person.username)
    except Refused as refused:
        given = {"name": name, "role": role, "error": refused.message}
        return _page(request, who, given=given, status=400)
    return _show(request, who, invitation)


@require_role(Role.ADMIN)
@require_POST
def new_link(request: HttpRequest, who: TenantMembership, person: int) -> HttpResponse:
    try:
        invitation = people.new_link(tenant=who.tenant, person=_person(who, person), actor=who.person.username)
    except Refused as refused:
        return _refused(request, who, refused)
    return _show(request, who, invitation)


def _show(request: HttpRequest, who: TenantMembership, invitation: Invitation) -> HttpResponse:
    address = reverse("dashboard:settings", args=[who.tenant.slug])
    return keys.redirect_with_secret(address, request, who, "link", invitation.path, str(invitation.person.pk))


@require_role(Role.ADMIN)
@require_POST
def set_role(request: HttpRequest, who: TenantMembership, person: int) -> HttpResponse:
    role = _role(request)
    try:
        changed = people.set_role(tenant=who.tenant, person=_person(who, person), role=role, actor=who.person.username)
    except Refused as refused:
        return _refused(request, who, refused)
    messages.success(request, f"{changed.person.username} is {role.value} now.")
    return redirect("home") if changed.person_id == who.person.pk else _back(who)


@require_role(Role.ADMIN)
@require_POST
def reset_factors(request: HttpRequest, who: TenantMembership, person: int) -> HttpResponse:
    member = _person(who, person)
    try:
        people.reset_factors(tenant=who.tenant, person=member, actor=who.person.username)
    except Refused as refused:
        return _refused(request, who, refused)
    messages.success(request, f"{member.username} signs in without a second factor until a new one is set up.")
    return _back(who)


@require_role(Role.ADMIN)
@require_POST
def remove(request: HttpRequest, who: TenantMembership, person: int) -> HttpResponse:
    removed = _person(who, person)
    try:
        people.remove(tenant=who.tenant, person=removed, actor=who.person.username)
    except Refused as refused:
        return _refused(request, who, refused)
    messages.success(request, f"{removed.username} is no longer in {who.tenant.name}.")
    return redirect("home") if removed.pk == who.person.pk else _back(who)


def _page(
    request: HttpRequest,
    who: TenantMembership,
    *,
    invitation: Invitation | None = None,
    given: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    link = request.build_absolute_uri(invitation.path) if invitation else ""
    if invitation and settings.PUBLIC_URL:
        link = settings.PUBLIC_URL + invitation.path
    context: dict[str, Any] = {
        "tab": "settings",
        "members": people.members(who.tenant),
        "protected": people.find_protected(who.tenant),
        "passwords": settings.PASSWORD_SIGN_IN,
        "oidc": settings.OIDC_NAME,
        "rights": [(role.value, rights) for role, rights in RIGHTS.items()],
        "invitation": invitation,
        "link": link,
        "given": given or {"role": Role.VIEWER},
        "days": settings.PASSWORD_RESET_TIMEOUT // 86_400,
    }
    return render(request, "dashboard/settings/people.html", context, status=status)


def _refused(request: HttpRequest, who: TenantMembership, refused: Refused) -> HttpResponse:
    messages.error(request, refused.message)
    return _page(request, who, status=409)


def _back(who: TenantMembership) -> HttpResponse:
    return redirect("dashboard:settings", tenant=who.tenant.slug)


def _person(who: TenantMembership, pk: int) -> Person:
    """Return a person of this tenant; raise Http404 for anybody else."""
    person = Person.objects.filter(pk=pk, membership__tenant=who.tenant).first()
    if person is None:
        raise Http404("There is no such person in this tenant.")
    return person


def _role(request: HttpRequest) -> Role:
    try:
        return Role(request.POST.get("role", ""))
    except ValueError as error:
        raise Http404("There is no such role.") from error


urlpatterns = [
    path("settings/", people_page, name="settings"),
    path("settings/people/invite/", invite, name="settings_invite"),
    path("settings/people/<int:person>/link/", new_link, name="settings_link"),
    path("settings/people/<int:person>/role/", set_role, name="settings_role"),
    path("settings/people/<int:person>/factors/", reset_factors, name="settings_reset_factors"),
    path("settings/people/<int:person>/remove/", remove, name="settings_remove"),
]
