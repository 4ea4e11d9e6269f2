"""Changes of one tenant come one after another."""

from handoffaudit.accounts.models import Tenant


def lock(tenant: Tenant) -> Tenant:
    """The tenant's row as it is now, held until the transaction ends.

    SQLite has one writer at a time and needs no lock. Rows that refer to the tenant can still be added by others.
    """
    return Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
