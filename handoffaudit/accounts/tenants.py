"""Creation and lookup of tenants."""

from django.core.exceptions import ValidationError
from django.core.validators import validate_slug
from django.db import IntegrityError, transaction

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.models import Tenant

DEFAULT = "default"


@transaction.atomic
def create(*, slug: str, name: str, actor: str, is_sample: bool = False) -> Tenant:
    _check_slug(slug)
    tenant = Tenant.objects.create(slug=slug, name=name.strip() or slug, is_sample=is_sample)
    audit.record(tenant=tenant, actor=actor, action="tenant.create", target=slug, detail={"name": tenant.name})
    return tenant


def get(slug: str) -> Tenant | None:
    return Tenant.objects.filter(slug=slug).first()


def get_default() -> Tenant | None:
    return get(DEFAULT)


def default(actor: str) -> Tenant:
    """Return the tenant `default`, and create the tenant if it does not exist."""
    found = get_default()
    if found is not None:
        return found
    try:
        return create(slug=DEFAULT, name="Default", actor=actor)
    except (Refused, IntegrityError):
        # Another server that starts for the first time may have created the tenant meanwhile.
        found = get_default()
        if found is None:
            raise
        return found


def _check_slug(slug: str) -> None:
    try:
        validate_slug(slug)
    except ValidationError as error:
        raise Refused(f"The short name {slug!r} can hold letters, digits, - and _ only.", "slug") from error
    if len(slug) > 100:
        raise Refused(f"The short name has {len(slug)} characters: use 100 or fewer.", "slug")
    if Tenant.objects.filter(slug=slug).exists():
        raise Refused(f"There is a tenant {slug!r} already: choose another short name.", "slug")
