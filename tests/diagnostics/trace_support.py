"""A trace in which one agent makes a number up, another repeats it, and a third drops it."""

from typing import Any

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.config import Strictness
from tests.handoffs.support import judged, payload, set_policy

TYPE = "finding"
CONTEXT = {"page": "The order 4711 was placed on 12 March 2024 and costs 240 EUR."}


def handed(tenant: Tenant, source: str, target: str, text: str, trace: str = "work/1", **beside: Any) -> Handoff:
    changes = {"call_chain": [source], **beside.pop("document", {})}
    document = payload(
        source_agent_id=source, target_agent_id=target, handoff_type=TYPE, data={"text": text}, **changes
    )
    return judged(tenant, document, trace_id=trace, context=CONTEXT, **beside)


def made_up(tenant: Tenant, trace: str = "work/1") -> list[Handoff]:
    """Submit a trace in which the solver makes 999 up, the critic repeats it, and the writer does not."""
    set_policy(tenant, TYPE, strictness=Strictness.STRICT)
    return [
        handed(tenant, "planner", "solver", "What does the order 4711 cost?", trace),
        handed(tenant, "solver", "critic", "The order costs 999 EUR.", trace),
        handed(tenant, "critic", "writer", "The order costs 999 EUR.", trace),
        handed(tenant, "writer", "reader", "The order was placed on 12 March 2024.", trace),
    ]
