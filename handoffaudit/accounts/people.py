"""People of a tenant: invitations, one-time links, roles, passwords and removal.

No change may leave a tenant without an administrator who can sign in.
"""

from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import get_script_prefix
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from handoffaudit.accounts import Refused, audit, tenants
from handoffaudit.accounts import keys as accounts_keys
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import Key, Membership, Person, Role, Tenant

NAME_RULE = "1 to 150 letters, digits and @ . + - _, no spaces"


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invited person. `path` is the one-time link to set a password; empty if the person needs none to sign in."""

    person: Person
    path: str


def members(tenant: Tenant) -> list[Membership]:
    return list(Membership.objects.filter(tenant=tenant).select_related("person").order_by("person__username"))


@transaction.atomic
def invite(*, tenant: Tenant, name: str, role: Role, actor: str) -> Invitation:
    """Make a new person or a former member a member. Raise `Refused`.

    With passwords off, only a former member who has an account at the provider can become a member in this way.
    """
    lock_tenant(tenant)
    name = check_name(name)
    # Without this lock, two tenants that invite the same person at the same time would both get the person as a member.
    found = Person.objects.select_for_update().filter(username__iexact=name)
    person = found.first() or Person(username=name)
    if person.pk and person.tenants.exists():
        _refuse_taken(tenant, person)
    if not settings.PASSWORD_SIGN_IN:
        if not SocialAccount.objects.filter(user=person.pk).exists():
            why = f"No former member named {name!r} has an account at {settings.OIDC_NAME}"
            raise Refused(why, "name", "let new people sign in there first.")
        join(tenant=tenant, person=person, role=role, actor=actor)
        return Invitation(person, "")
    # A person who left every tenant may be invited again. The old password, second factors and accounts at the provider
    # must not work then, because somebody else may have the name now.
    person.set_unusable_password()
    person.email = ""
    _save(person)
    Authenticator.objects.filter(user=person).delete()
    SocialAccount.objects.filter(user=person).delete()
    Membership.objects.create(tenant=tenant, person=person, role=role)
    detail = {"role": Role(role).value}
    audit.record(tenant=tenant, actor=actor, action="person.invite", target=person.username, detail=detail)
    return Invitation(person, make_link(person))


@transaction.atomic
def new_link(*, tenant: Tenant, person: Person, actor: str) -> Invitation:
    """Make another one-time link for a person who lost the first link, or the password. Raise `Refused`."""
    if not settings.PASSWORD_SIGN_IN:
        raise Refused("Sign-in with a password is switched off: people sign in through the provider.", "name")
    lock_tenant(tenant)
    _get_membership(tenant, person)
    _refuse_member_elsewhere(tenant, person)
    if settings.OIDC_ISSUER and SocialAccount.objects.filter(user=person).exists():
        # The provider may make the person a member of other tenants, where a password that was set here would work too.
        raise Refused(f"{person.username} signs in through {settings.OIDC_NAME}, and needs no link.")
    audit.record(tenant=tenant, actor=actor, action="person.link", target=person.username, detail={})
    return Invitation(person, make_link(person))


@transaction.atomic
def make_operator_link(*, person: Person, actor: str, drop_factors: bool) -> str:
    """Return the path of a one-time link for a person, made by the operator of the server.

    The audit log of each of the person's tenants records it. `drop_factors` also removes the second factors.
    """
    found = _lock_tenants(person)
    dropped = remove_factors(person) if drop_factors else 0
    for tenant in found:
        detail = {"second_factors_removed": dropped}
        audit.record(tenant=tenant, actor=actor, action="person.link", target=person.username, detail=detail)
    return make_link(person)


@transaction.atomic
def reset_factors(*, tenant: Tenant, person: Person, actor: str) -> None:
    """Remove the second factors of a member who lost them. Raise `Refused`."""
    lock_tenant(tenant)
    _get_membership(tenant, person)
    _refuse_member_elsewhere(tenant, person)
    if removed := remove_factors(person):
        detail = {"removed": removed}
        audit.record(tenant=tenant, actor=actor, action="person.factor_reset", target=person.username, detail=detail)


def remove_factors(person: Person) -> int:
    """Remove the second factors and recovery codes of a person, and return how many there were."""
    removed: int = Authenticator.objects.filter(user=person).delete()[0]
    return removed


def find_protected(tenant: Tenant) -> set[int]:
    """Return the primary keys of the members who have an authenticator app, a passkey or recovery codes."""
    return set(Authenticator.objects.filter(user__membership__tenant=tenant).values_list("user_id", flat=True))


def _refuse_member_elsewhere(tenant: Tenant, person: Person) -> None:
    if person.tenants.exclude(pk=tenant.pk).exclude(is_sample=True).exists():
        # Otherwise, one tenant's administrator could sign in to another tenant as this person. Sample tenants hold no
        # data to protect.
        raise Refused(
            f"{person.username} also belongs to another tenant: an operator has to run handoffaudit sign-in-link."
        )


@transaction.atomic
def create(*, name: str, email: str) -> Person:
    """Create a person who belongs to no tenant yet and has no password. Raise `Refused` for an unusable name."""
    person = Person(username=check_name(name), email=email)
    person.set_unusable_password()
    _save(person)
    return person


@transaction.atomic
def join(*, tenant: Tenant, person: Person, role: Role, actor: str) -> Membership:
    """Make an existing person a member."""
    lock_tenant(tenant)
    membership = Membership.objects.create(tenant=tenant, person=person, role=role)
    audit.record(tenant=tenant, actor=actor, action="person.join", target=person.username, detail={"role": role.value})
    return membership


@transaction.atomic
def set_role(*, tenant: Tenant, person: Person, role: Role, actor: str) -> Membership:
    lock_tenant(tenant)
    membership = _get_membership(tenant, person)
    before = membership.role
    if before == role:
        return membership
    if before == Role.ADMIN:
        _check_another_admin(tenant, person)
    membership.role = role
    membership.save(update_fields=["role"])
    detail = {"from": before, "to": Role(role).value}
    audit.record(tenant=tenant, actor=actor, action="person.role", target=person.username, detail=detail)
    return membership


@transaction.atomic
def remove(*, tenant: Tenant, person: Person, actor: str) -> None:
    """Remove a person from this tenant; the person's decisions and audit entries stay.

    A person who then belongs only to sample tenants is removed from them as well, because sample tenants are only for
    members of a real tenant. Raise `Refused`, for example for the last administrator.
    """
    samples = [] if tenant.is_sample else list(person.tenants.filter(is_sample=True))
    for one in sorted([tenant, *samples], key=lambda one: one.pk):
        lock_tenant(one)
    membership = _get_membership(tenant, person)
    if membership.role == Role.ADMIN:
        _check_another_admin(tenant, person)
    membership.delete()
    detail = {"role": membership.role}
    audit.record(tenant=tenant, actor=actor, action="person.remove", target=person.username, detail=detail)
    if not person.tenants.filter(is_sample=False).exists():
        for sample in samples:
            _end_sample(sample, person, actor)


def _end_sample(sample: Tenant, person: Person, actor: str) -> None:
    """Remove a person from a sample tenant. If no administrator is left, remove all its members and keys.

    A worker deletes a sample tenant without members.
    """
    Membership.objects.filter(tenant=sample, person=person).delete()
    if not Membership.objects.filter(tenant=sample, role=Role.ADMIN).exists():
        Membership.objects.filter(tenant=sample).delete()
        keys = Key.objects.filter(tenant=sample)
        for secret in keys.values_list("secret_hash", flat=True):
            transaction.on_commit(partial(accounts_keys.forget_key, secret))
        keys.delete()
    audit.record(tenant=sample, actor=actor, action="person.remove", target=person.username, detail={})


@transaction.atomic
def accept(*, uid: str, token: str, name: str, password: str) -> Person | None:
    """Set a person's password with a one-time link, and return the person, or None if the link does not work.

    `name` becomes the name of a person who has never signed in; other people keep their names. Raise `Refused` for a
    name or password that cannot be used.
    """
    person = _lock_by_link(uid, token)
    if person is None:
        return None
    before = person.username
    if person.last_login is None:
        person.username = _free_name(person, name)
    set_password(person=person, password=password, action="person.welcome", detail={"invited_as": before})
    return person


@transaction.atomic
def use_link(*, uid: str, token: str) -> Person | None:
    """End a one-time link without setting a password, and return its person, or None if the link does not work."""
    person = _lock_by_link(uid, token)
    if person is None:
        return None
    make_link(person)
    for tenant in person.tenants.order_by("pk"):
        audit.record(tenant=tenant, actor=person.username, action="person.link_used", target=person.username, detail={})
    return person


def _lock_by_link(uid: str, token: str) -> Person | None:
    if found := find_by_link(uid, token):
        _lock_tenants(found)
    return find_by_link(uid, token, lock=True)


def _lock_tenants(person: Person) -> list[Tenant]:
    """Lock and return the person's tenants. Every change locks tenants before people, so no deadlock is possible."""
    return [lock_tenant(tenant) for tenant in person.tenants.order_by("pk")]


@transaction.atomic
def set_password(*, person: Person, password: str, action: str = "person.password", detail: dict[str, str]) -> None:
    """Set a password, and record the change in the audit log of each of the person's tenants.

    Raise `Refused` for a password that Django's password validators reject.
    """
    try:
        validate_password(password, person)
    except ValidationError as error:
        raise Refused(" ".join(error.messages), "password") from error
    tenants_of_person = _lock_tenants(person)
    person.set_password(password)
    _save(person)
    for tenant in tenants_of_person:
        audit.record(tenant=tenant, actor=person.username, action=action, target=person.username, detail=detail)


def check_name(name: str) -> str:
    name = Person.normalize_username(name.strip())
    try:
        Person.username.field.run_validators(name)
    except ValidationError as error:
        raise Refused(f"The name {name!r} cannot be used: use {NAME_RULE}.", "name") from error
    if not name:
        raise Refused(f"A name is needed: use {NAME_RULE}.", "name")
    if name.casefold() in audit.NAMES_OF_THE_SERVER:
        raise Refused(f"The name {name!r} means the server in the audit log: choose another name.", "name")
    return name


def _free_name(person: Person, name: str) -> str:
    name = check_name(name)
    if Person.objects.filter(username__iexact=name).exclude(pk=person.pk).exists():
        raise _name_in_use(name)
    return name


def _save(person: Person) -> None:
    try:
        with transaction.atomic():
            person.save(update_fields=["username", "password", "email"] if person.pk else None)
    except IntegrityError as error:
        raise _name_in_use(person.username) from error


def _name_in_use(name: str) -> Refused:
    return Refused(f"The name {name!r} is taken: choose another one.", "name")


def _refuse_taken(tenant: Tenant, person: Person) -> None:
    if person.tenants.filter(pk=tenant.pk).exists():
        raise Refused(f"{person.username} is a member of this tenant already: change the role in the list.", "name")
    raise _name_in_use(person.username)


def _get_membership(tenant: Tenant, person: Person) -> Membership:
    membership = Membership.objects.filter(tenant=tenant, person=person).first()
    if membership is None:
        raise Refused(f"{person.username} does not belong to this tenant (any more): reload the page.")
    return membership


def _check_another_admin(tenant: Tenant, person: Person) -> None:
    admins = Membership.objects.filter(can_sign_in(), tenant=tenant, role=Role.ADMIN)
    if not admins.exclude(person=person).exists():
        raise Refused(
            f"{person.username} is the last administrator who can sign in: make somebody else an administrator first."
        )


def can_sign_in() -> Q:
    """Return the condition for members who can sign in: with a password, or through the provider."""
    ways = []
    if settings.PASSWORD_SIGN_IN:
        ways.append(~Q(person__password__startswith=UNUSABLE_PASSWORD_PREFIX))
    if settings.OIDC_ISSUER:
        ways.append(Q(person__in=SocialAccount.objects.values("user")))
    return Q(person__is_active=True) & reduce(or_, ways)


FIRST_NAME = "admin"

# The route of the page that a link opens. `reverse` would load every page to find the route, and the first start would
# take a second longer.
ROUTE = "welcome/<uidb64>/<token>/"


class _Tokens(PasswordResetTokenGenerator):
    """Tokens that stop working after `PASSWORD_RESET_TIMEOUT` seconds, or earlier.

    A sign-in, a newer link, and a new password or e-mail address end them.
    """

    # The salt is part of every link, so another salt would end all links.
    key_salt = "handoffaudit.accounts.links"

    def _make_hash_value(self, user: Person, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{user.link_number}"


_tokens = _Tokens()


@transaction.atomic
def make_link(person: Person) -> str:
    """Return the path of a new link; the person's earlier links stop working."""
    person.link_number = Person.objects.select_for_update().get(pk=person.pk).link_number + 1
    person.save(update_fields=["link_number"])
    uid = urlsafe_base64_encode(force_bytes(person.pk))
    return get_script_prefix() + ROUTE.replace("<uidb64>", uid).replace("<token>", _tokens.make_token(person))


def find_by_link(uid: str, token: str, *, lock: bool = False) -> Person | None:
    """Return the person that a link is for, or None if the link does not work.

    With `lock`, nobody else can use the link until the current transaction ends.
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
def make_first_link() -> str | None:
    """Return the path of a link for an administrator, or None if an administrator can sign in already.

    If there is no active administrator, make `admin` an administrator of the tenant `default`, and create both if they
    are missing. A disabled person may have this name; another name, such as `admin2`, then takes its place.
    """
    if Membership.objects.filter(can_sign_in(), role=Role.ADMIN).exists():
        return None
    admins = Person.objects.filter(membership__role=Role.ADMIN, is_active=True).order_by("pk")
    return make_link(admins.first() or _make_first_administrator())


def _make_first_administrator() -> Person:
    tenant = tenants.default("system")
    # A link of a disabled person does not work.
    disabled = Person.objects.filter(is_active=False)
    names = (f"{FIRST_NAME}{number}" for number in ("", *range(2, disabled.count() + 3)))
    name = next(name for name in names if not disabled.filter(username__iexact=name).exists())
    person = Person.objects.filter(username__iexact=name).first() or Person(username=name)
    if person.pk is None:
        person.set_unusable_password()
        person.save()
    Membership.objects.update_or_create(tenant=tenant, person=person, defaults={"role": Role.ADMIN})
    detail = {"role": Role.ADMIN.value, "why": "nobody could administer yet"}
    audit.record(tenant=tenant, actor="system", action="person.invite", target=person.username, detail=detail)
    return person
