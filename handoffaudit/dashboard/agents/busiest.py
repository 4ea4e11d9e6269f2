"""The busiest agents, for the overview."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.agents.addresses import address_of
from handoffaudit.dashboard.readable import cut
from handoffaudit.diagnostics.agents import busiest_agents
from handoffaudit.handoffs.rates import Share

MOST: Final = 8
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class Busy:
    """`part` of the busiest one; `share` accepted of what it handed on."""

    name: str
    href: str
    number: int
    part: float
    share: Share


def busy(tenant: Tenant, since: datetime, until: datetime, period: str) -> list[Busy]:
    """Those that handed on most; `period` as the page of an agent takes it."""
    found = busiest_agents(tenant, since.replace(minute=0, second=0, microsecond=0), until, MOST)
    most = max((one.number for one in found), default=1)
    return [
        Busy(
            cut(one.name, _LONGEST),
            address_of(tenant.slug, one.name, {"period": period}),
            one.number,
            one.number / most,
            one.judged.share,
        )
        for one in found
    ]
