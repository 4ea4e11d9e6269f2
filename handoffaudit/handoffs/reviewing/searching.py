"""What somebody typed into the search of the queue: a code, a type, an agent, a handoff or a trace."""

from dataclasses import dataclass

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Finding, Handoff


@dataclass(frozen=True, slots=True)
class Searched:
    """`found_by`: the field of `filters` that the text was found as: `code`, `handoff_type`, `source`, `target`,
    `handoff_id` or `trace`; empty where nothing was typed."""

    filters: Filters
    found_by: str

    @property
    def value(self) -> str:
        """What is looked for: the sender's id where the product's own was typed."""
        return str(getattr(self.filters, self.found_by)) if self.found_by else ""


_COLUMNS = {"handoff_type": "handoff_type", "source": "source_agent_id", "target": "target_agent_id"}


def search(tenant: Tenant, text: str, named: str = "") -> Searched:
    """The first of these that a tenant knows; what it knows as none is taken for a trace. `named`: the code that bears
    the text as its name. Raises BadFilter."""
    text = text.strip()
    if not text:
        return Searched(Filters(), "")
    by_trace = Filters.from_query({"trace": text})
    for code in dict.fromkeys((text, named or text)):
        if Finding.objects.filter(tenant=tenant, code=code).exists():
            return Searched(Filters(code=code), "code")
    for field, column in _COLUMNS.items():
        if Handoff.objects.filter(tenant=tenant, **{column: text}).exists():
            return Searched(Filters(**{field: text}), field)  # type: ignore[arg-type]
    try:
        found = queries.get(tenant, text)
    except Handoff.DoesNotExist:
        return Searched(by_trace, "trace")
    return Searched(Filters(handoff_id=found.handoff_id), "handoff_id")
