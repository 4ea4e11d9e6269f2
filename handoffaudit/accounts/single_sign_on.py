"""Rules of sign-in with OpenID Connect: who may sign in, as which person, and with which roles."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import transaction
from django.db.models import Q

from handoffaudit.accounts import Refused, audit, people, tenants
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import INCLUDED, Membership, Person, Role, Tenant

PROVIDER: Final = "oidc"

# The audit log names this actor for the changes that a sign-in through the provider makes.
ACTOR: Final = "OpenID Connect"

LONGEST_EMAIL: Final = 254

# At most this many values of a claim are read.
MOST_VALUES: Final = 1000

MOST_PEOPLE_OF_A_NAME: Final = 50

ASK_ADMINISTRATOR: Final = "Ask an administrator of handoffaudit; the server's log has the details."

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Identity:
    """An account at the provider, from verified tokens. `claims` are the claims of the ID token and of UserInfo."""

    issuer: str
    subject: str
    email: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """Return a hash of issuer and subject, under which the account is stored.

        A subject alone is unique only at its issuer, and may be longer than the column.
        """
        return hashlib.sha256(f"{self.issuer}\n{self.subject}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Admission:
    """The person who signs in.

    `kept` has the tenants in which the person stays an administrator, although the claim gives another role or none:
    the person is the last administrator there.
    """

    person: Person
    kept: list[Tenant]


def parse_grant(text: str) -> tuple[str, Role]:
    """Return the tenant and the role that a text such as `reviewer@acme` names. Raise `Refused` for another text.

    A role alone, such as `reviewer`, is a role in the tenant `default`.
    """
    role, _, tenant = text.strip().partition("@")
    try:
        validate_slug(tenant or tenants.DEFAULT)
        return tenant or tenants.DEFAULT, Role(role)
    except (ValueError, ValidationError) as error:
        raise Refused(
            f"{text!r} is not a role: write one of {', '.join(Role.values)}, followed by @ and the short name of a"
            f" tenant unless the tenant is {tenants.DEFAULT}."
        ) from error


def read_values(claims: Mapping[str, Any], name: str) -> set[str]:
    """Return the values of a claim that is a text or a list of texts, at most `MOST_VALUES`.

    An absent claim has no values. A claim of another type has no values either, and is logged. A claim that has exactly
    this name takes precedence. Otherwise, a name with dots, such as `realm_access.roles`, is the path to the claim.
    """
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, str):
        return {value}
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return set(value[:MOST_VALUES])
    if value is not None:
        log.warning("sign_in.oidc_claim_unusable", claim=name, type=type(value).__name__)
    return set()


def find_roles(claims: Mapping[str, Any]) -> dict[str, Role]:
    """Return the role in each tenant, by the short name of the tenant: of several roles, the role with most rights.

    If the claims grant no role, the default role of the settings is granted.
    """
    granted: list[str] = []
    if settings.OIDC_ROLE_CLAIM:
        granted = [
            text
            for value in read_values(claims, settings.OIDC_ROLE_CLAIM)
            for text in settings.OIDC_ROLES.get(value, [])
        ]
    if not granted and settings.OIDC_DEFAULT_ROLE:
        granted = [settings.OIDC_DEFAULT_ROLE]
    found: dict[str, Role] = {}
    for slug, role in sorted(map(parse_grant, granted)):
        found[slug] = max(found.get(slug, role), role, key=lambda one: len(INCLUDED[one]))
    return found


def managed_slugs() -> set[str]:
    """Return the short names of all tenants that the settings of the provider name.

    The provider manages the members of these tenants.
    """
    return {parse_grant(text)[0] for text in list_grants()}


def list_grants() -> list[str]:
    """Return the roles that the settings grant, each once, as texts such as `reviewer@acme`."""
    texts = [text for grants in settings.OIDC_ROLES.values() for text in grants]
    return list(dict.fromkeys(text for text in [*texts, settings.OIDC_DEFAULT_ROLE] if text))


def admit(identity: Identity) -> Admission:
    """Admit an account at the provider: give its person the roles that the account now has, and return the admission.

    At the first sign-in, link the account to the person who has the account's e-mail address, or create a person. Raise
    `Refused` for somebody who may not sign in.
    """
    _check_email(identity.email)
    with transaction.atomic():
        admission = _apply(identity, find_roles(identity.claims))
    # This check comes after the transaction, so that withdrawn roles stay withdrawn even if the sign-in is refused.
    if not Membership.objects.filter(person=admission.person).exists():
        raise _no_role(identity)
    return admission


def _check_email(email: str) -> None:
    if not email:
        raise Refused(
            "The provider did not say that your e-mail address is verified",
            remedy="verify the address at the provider, then sign in again.",
        )
    domain = email.rpartition("@")[2].lower()
    allowed = [one.lower() for one in settings.OIDC_ALLOWED_DOMAINS]
    if allowed and domain not in allowed:
        raise Refused(f"E-mail addresses of {domain!r} may not sign in here", remedy=ASK_ADMINISTRATOR)


def _apply(identity: Identity, roles: dict[str, Role]) -> Admission:
    managed = _lock_tenants(identity)
    if unknown := set(roles) - {tenant.slug for tenant in managed}:
        log.error("sign_in.oidc_tenant_unknown", tenants=sorted(unknown))
    accounts = SocialAccount.objects.filter(provider=PROVIDER, uid=identity.uid)
    known = Q(pk__in=accounts.values("user")) | Q(email__iexact=identity.email)
    # A former member is in no locked tenant. Without this lock, a tenant could invite the person at the same time.
    list(Person.objects.select_for_update().filter(known).order_by("pk").values_list("pk"))
    account = accounts.select_related("user").first()
    person = account.user if account else _find_by_email(identity.email)
    if person is not None and not person.is_active:
        raise Refused("This account is disabled", remedy="ask an administrator to enable it.")
    if person is None:
        if not any(tenant.slug in roles for tenant in managed):
            raise _no_role(identity)
        person = people.create(name=_free_name(identity.email), email=identity.email)
    if account is None:
        _link(identity, person)
    follows_claim = bool(settings.OIDC_ROLE_CLAIM)
    kept = []
    for tenant in managed:
        membership = Membership.objects.filter(tenant=tenant, person=person).first()
        if membership is None and tenant.slug in roles and (follows_claim or account is None):
            people.join(tenant=tenant, person=person, role=roles[tenant.slug], actor=ACTOR)
        elif membership is not None and follows_claim and not _follow(tenant, membership, roles.get(tenant.slug)):
            kept.append(tenant)
    return Admission(person, kept)


def _lock_tenants(identity: Identity) -> list[Tenant]:
    """Lock the tenants that the sign-in can change, and return the tenants in the settings of the provider.

    The sign-in can change members of the tenants in the settings, and adds to the audit logs of the person's tenants.
    Every change locks tenants before people, and tenants in the order of their primary keys, so that two changes cannot
    deadlock.
    """
    slugs = managed_slugs()
    known = Q(membership__person__socialaccount__uid=identity.uid) | Q(membership__person__email__iexact=identity.email)
    pks = Tenant.objects.filter(Q(slug__in=slugs) | known).values_list("pk", flat=True)
    locked = [lock_tenant(Tenant(pk=pk)) for pk in sorted(set(pks))]
    return [tenant for tenant in locked if tenant.slug in slugs]


def _follow(tenant: Tenant, membership: Membership, role: Role | None) -> bool:
    """Give a member the role of the claim, or remove a member to whom the claim gives no role.

    Return False if the member must stay as the last administrator.
    """
    person = membership.person
    try:
        if role is None:
            people.remove(tenant=tenant, person=person, actor=ACTOR)
        else:
            people.set_role(tenant=tenant, person=person, role=role, actor=ACTOR)
    except Refused as refused:
        detail = {"role": membership.role, "claim": role.value if role else "", "why": refused.message}
        audit.record(tenant=tenant, actor=ACTOR, action="person.role_kept", target=person.username, detail=detail)
        log.exception("sign_in.oidc_last_administrator", tenant=tenant.slug, name=person.username, why=refused.message)
        return False
    return True


def _find_by_email(email: str) -> Person | None:
    """Return the person with this e-mail address who has no account at the provider yet, or None.

    If the settings list no allowed domains, return None: otherwise a provider could claim an address of a foreign
    domain, and take over the person. Raise `Refused` if several people have the address.
    """
    if not settings.OIDC_ALLOWED_DOMAINS:
        return None
    linked = SocialAccount.objects.filter(provider=PROVIDER).values("user")
    similar = Person.objects.filter(email__iexact=email).exclude(pk__in=linked)
    # PostgreSQL compares in upper case, where `i` and the dotless `\u0131` are equal. In an address, they differ.
    found = [person for person in similar if person.email.lower() == email.lower()]
    if len(found) > 1:
        raise Refused(f"Several people have the e-mail address {email}", remedy=ASK_ADMINISTRATOR)
    return found[0] if found else None


def _link(identity: Identity, person: Person) -> None:
    known = {"iss": identity.issuer, "sub": identity.subject, "email": identity.email}
    SocialAccount.objects.create(provider=PROVIDER, uid=identity.uid, user=person, extra_data=known)
    detail = {"issuer": identity.issuer, "email": identity.email}
    for tenant in person.tenants.order_by("pk"):
        audit.record(tenant=tenant, actor=ACTOR, action="person.link_oidc", target=person.username, detail=detail)


def _free_name(email: str) -> str:
    """Return a free name: the address, with a number if somebody else has that name.

    Raise `Refused` if no number up to `MOST_PEOPLE_OF_A_NAME` is free.
    """
    base = re.sub(r"[^\w.@+-]", "-", email)[:140]
    for number in range(1, MOST_PEOPLE_OF_A_NAME + 1):
        name = base if number == 1 else f"{base}-{number}"
        if not Person.objects.filter(username__iexact=name).exists():
            return name
    raise Refused(f"{MOST_PEOPLE_OF_A_NAME} people have the name {base!r}", remedy=ASK_ADMINISTRATOR)


def _no_role(identity: Identity) -> Refused:
    name = settings.OIDC_ROLE_CLAIM
    values = sorted(read_values(identity.claims, name))[:20] if name else []
    log.warning("sign_in.oidc_no_role", email=identity.email, claim=name, values=values)
    return Refused("You have no role in handoffaudit yet", remedy=ASK_ADMINISTRATOR)


@transaction.atomic
def record_sign_in(person: Person) -> None:
    """Record a sign-in through the provider in the audit log of each of the person's tenants."""
    detail = {"issuer": settings.OIDC_ISSUER}
    for tenant in person.tenants.order_by("pk"):
        name = person.username
        audit.record(tenant=tenant, actor=name, action="person.sign_in", target=name, detail=detail)
