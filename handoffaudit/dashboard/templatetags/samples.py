"""The banner of sample tenants."""

from django.template import Library

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import sample_tenants
from handoffaudit.diagnostics.sample_tenants import Progress

register = Library()


@register.simple_tag
def sample_progress(tenant: Tenant) -> Progress:
    """`{% sample_progress who.tenant as filled %}`: how far a sample tenant is filled."""
    return sample_tenants.load_progress(tenant)
