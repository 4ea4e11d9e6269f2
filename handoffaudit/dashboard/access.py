"""Access control of the pages: which members may open a page, checked before a view runs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from django_htmx.http import HttpResponseClientRefresh

from handoffaudit.accounts.models import Membership, Person, Role, Tenant
from handoffaudit.dashboard.partials import is_htmx

RANK = {Role.VIEWER: 0, Role.REVIEWER: 1, Role.ADMIN: 2}


@dataclass(frozen=True, slots=True)
class TenantMembership:
    """The signed-in person in one tenant."""

    person: Person
    tenant: Tenant
    role: Role

    def may(self, role: Role) -> bool:
        return RANK[self.role] >= RANK[role]


PageView = Callable[Concatenate[HttpRequest, TenantMembership, ...], HttpResponseBase]


def require_role(role: Role) -> Callable[[PageView], Callable[..., Any]]:
    """Return a decorator that admits members of the address's tenant with this role or a higher role.

    The view gets `who` after `request`. A person who is not signed in is sent to the sign-in page, a person
    who is not a member gets 404, as if the tenant did not exist, and a member with a lower role gets 403. The
    access tests read the required role from the view's `role` attribute.
    """

    def decorate(view: PageView) -> Callable[..., Any]:
        @wraps(view)
        def checked(request: HttpRequest, tenant: str, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                # htmx would insert the sign-in page into the current page, so it is made to reload the whole page.
                return HttpResponseClientRefresh() if is_htmx(request) else redirect_to_login(request.get_full_path())
            who = _member(request, tenant)
            if not who.may(role):
                raise PermissionDenied(f"This needs the role {role.value}; yours is {who.role.value}.")
            request.who = who  # type: ignore[attr-defined]
            response = view(request, who, *args, **kwargs)
            patch_cache_control(response, private=True, no_store=True)
            return response

        checked.role = role  # type: ignore[attr-defined]
        return checked

    return decorate


def find_member(request: HttpRequest) -> TenantMembership | None:
    """Return the membership of the person in the tenant of the address, or None, even where the address has no page."""
    head, slug, *_ = [*request.path.strip("/").split("/"), "", ""]
    user = getattr(request, "user", None)
    if head != "t" or not re.fullmatch(r"[-\w]+", slug, re.ASCII) or user is None or not user.is_authenticated:
        return None
    return _membership(request, slug)


def _member(request: HttpRequest, slug: str) -> TenantMembership:
    who = _membership(request, slug)
    if who is None:
        raise Http404("There is no such page.")
    return who


def _membership(request: HttpRequest, slug: str) -> TenantMembership | None:
    of_person = Membership.objects.select_related("tenant", "person").filter(person=request.user.pk)
    membership = of_person.filter(tenant__slug=slug).first()
    if membership is None:
        return None
    return TenantMembership(person=membership.person, tenant=membership.tenant, role=Role(membership.role))
