"""One-time links, for a person's first sign-in, or for a new password when the old one is lost."""

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.urls import get_script_prefix
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from handoffaudit.accounts import audit, tenants
from handoffaudit.accounts.models import Membership, Person, Role, Tenant

FIRST_NAME = "admin"

# The route of the page that a link opens. `reverse` would load every page for it, for a second of each first start.
ROUTE = "welcome/<uidb64>/<token>/"


class _Tokens(PasswordResetTokenGenerator):
    """Tokens that end with a new password, a sign-in, a newer link, and after `PASSWORD_RESET_TIMEOUT` seconds."""

    key_salt = "handoffaudit.accounts.links"

    def _make_hash_value(self, user: Person, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{user.link_number}"


_tokens = _Tokens()


@transaction.atomic
def make(person: Person) -> str:
    """Return the path of a new link; the person's earlier links stop working."""
    person.link_number = Person.objects.select_for_update().get(pk=person.pk).link_number + 1
    person.save(update_fields=["link_number"])
    uid = urlsafe_base64_encode(force_bytes(person.pk))
    return get_script_prefix() + ROUTE.replace("<uidb64>", uid).replace("<token>", _tokens.make_token(person))


def find(uid: str, token: str, *, lock: bool = False) -> Person | None:
    """Return the person that a link is for, or None if the link does not work.

    With `lock`, inside a transaction, nobody else can use the link meanwhile.
    """
    try:
        pk = int(urlsafe_base64_decode(uid))
    except ValueError:
        return None
    people = Person.objects.filter(is_active=True)
    if lock:
        people = people.select_for_update()
    person = people.filter(pk=pk).first() if 0 < pk < 2**63 else None
    return person if person and _tokens.check_token(person, token) else None


@transaction.atomic
def first_administrator() -> str | None:
    """Return the path of a link for an administrator, or None if there is an administrator who can sign in.

    If there is no administrator at all, create the tenant `default` and the person `admin`.
    """
    admins = Person.objects.filter(membership__role=Role.ADMIN, is_active=True).order_by("pk")
    if admins.exclude(password__startswith=UNUSABLE_PASSWORD_PREFIX).exists():
        return None
    return make(admins.first() or _make_first_administrator())


def _make_first_administrator() -> Person:
    tenant = tenants.default("system")
    person = Person.objects.filter(username__iexact=FIRST_NAME).first() or Person(username=FIRST_NAME)
    if person.pk is None:
        person.set_unusable_password()
        person.save()
    _make_admin(tenant, person)
    return person


def _make_admin(tenant: Tenant, person: Person) -> None:
    Membership.objects.update_or_create(tenant=tenant, person=person, defaults={"role": Role.ADMIN})
    audit.record(
        tenant=tenant,
        actor="system",
        action="person.invite",
        target=person.username,
        detail={"role": Role.ADMIN.value, "why": "nobody could administer yet"},
    )
