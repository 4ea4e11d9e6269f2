"""Where what a code demands is changed: a row of the strictness table, a rule, a schema."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who
from handoffaudit.policy import kinds
from handoffaudit.validation.config import ANY_OTHER_TYPE


@dataclass(frozen=True, slots=True)
class Mend:
    link: str
    text: str


def mend(who: Who, code: str, handoff_type: str) -> Mend:
    """For a code that is overturned mostly on handoffs of that type. Who may not change it is led to it."""
    family, _, rest = code.partition(".")
    if family == "business_rule" and (found := _rule(who, rest.rpartition(".")[2])):
        return found
    if family == "schema" and kinds.schemas.current(who.tenant).row(handoff_type):
        return _mend(who, "schemas", {"edit": handoff_type}, f"the schema of {handoff_type}")
    row = handoff_type if kinds.strictness.current(who.tenant).row(handoff_type) else ANY_OTHER_TYPE
    named = "of any other type" if row == ANY_OTHER_TYPE else row
    if who.may(Role.ADMIN):
        return _mend(who, "strictness", {"edit": row}, f"the strictness row {named}")
    return _mend(who, "strictness_row", {"type": row}, f"the strictness row {named}")


def _rule(who: Who, rule_id: str) -> Mend | None:
    for one in kinds.rules.current(who.tenant).rows:
        if any(rule.rule_id == rule_id for rule in one.rules):
            return _mend(who, "rules", {"set": one.set_id, "rule": rule_id}, f"the rule {rule_id}")
    return None


def _mend(who: Who, page: str, query: dict[str, str], what: str) -> Mend:
    address = reverse(f"dashboard:{page}", args=[who.tenant.slug])
    return Mend(f"{address}?{urlencode(query)}", f"{'Change' if who.may(Role.ADMIN) else 'See'} {what}")
