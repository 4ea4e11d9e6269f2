"""What the shell of every page shows."""

import os
import shlex
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.navigation import menu
from handoffaudit.dashboard.reviewing.queue import MOST_WAITING, waiting
from handoffaudit.dashboard.theme import density_of, theme_of
from handoffaudit.env import usual_data_folder

MOST_TENANTS = 50


def page(request: HttpRequest) -> dict[str, Any]:
    """Nothing is asked of the database before a template uses it: partials and error pages need none of it."""
    shown: dict[str, Any] = {"theme": theme_of(request), "density": density_of(request)}
    who: Who | None = getattr(request, "who", None)
    if who is None:
        return shown
    return shown | {
        "who": who,
        "may_review": who.may(Role.REVIEWER),
        "may_admin": who.may(Role.ADMIN),
        # A view that answers under the address of another page says which it is.
        "section": _section(request.path, who.tenant),
        "menu": menu(who),
        "data_option": _data_option() if who.may(Role.ADMIN) else "",
        "tenants": SimpleLazyObject(lambda: _tenants(who)),
        "waiting_told": SimpleLazyObject(lambda: waiting(who.tenant, MOST_WAITING)),
    }


def _data_option() -> str:
    """What a command on this machine needs to find this server's data: nothing where they are in the usual place."""
    elsewhere = usual_data_folder() != settings.DATA_FOLDER and not os.environ.get("DATABASE_URL")
    return f" --data {shlex.quote(str(settings.DATA_FOLDER))}" if elsewhere else ""


def _section(path: str, tenant: Tenant) -> str:
    """The first part of the address after the tenant's."""
    return path.partition(f"/t/{tenant.slug}/")[2].partition("/")[0]


def _tenants(who: Who) -> list[Tenant]:
    return list(Tenant.objects.filter(membership__person=who.person).order_by("name")[:MOST_TENANTS])
