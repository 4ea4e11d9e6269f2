"""The few internal names that the snapshots need; only this file changes when a module moves."""

from handoffaudit.accounts.tenants import create as create_tenant
from handoffaudit.dashboard.settings.audit import ACTIONS as AUDIT_ACTIONS
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs.alerts import raise_alert
from handoffaudit.handoffs.webhooks.delivery import drain as deliver_waiting
from handoffaudit.handoffs.webhooks.events import dispatch as gather_events
from handoffaudit.problem_types import PROBLEM_TYPES, type_of
from handoffaudit.validation.layers import CATALOGUE, FAMILIES

__all__ = [
    "AUDIT_ACTIONS",
    "CATALOGUE",
    "FAMILIES",
    "PROBLEM_TYPES",
    "Watermark",
    "create_tenant",
    "deliver_waiting",
    "gather_events",
    "raise_alert",
    "type_of",
]
