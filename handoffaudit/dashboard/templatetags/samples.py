"""The template tag for the banner of sample tenants."""

from django.template import Library

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import sample_tenants
from handoffaudit.diagnostics.sample_tenants import Progress

register = Library()


@register.simple_tag
def sample_progress(tenant: Tenant) -> Progress:
    """Return how far a sample tenant is filled: `{% sample_progress who.tenant as filled %}`."""
    return sample_tenants.load_progress(tenant)
