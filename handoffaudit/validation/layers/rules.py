"""The rules layer: the business rules for the type of a handoff.

The evaluation of the rules is imported only if there are rules, because its pydantic models take longer to load than
all other layers.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from handoffaudit.validation.issues import Code, Issue, Severity, limit_mixed_issues, make
from handoffaudit.validation.layers.base import Subject
from handoffaudit.validation.paths import Location, dotted_path
from handoffaudit.validation.record import placer
from handoffaudit.validation.text import clean

if TYPE_CHECKING:
    from handoffaudit.validation.business_rules import BusinessRule
    from handoffaudit.validation.rule_evaluation import Broken

name: Final = "rules"

BUSINESS_RULE: Final = Code(
    "business_rule",
    Severity.ERROR,
    "Breaks a business rule",
    what="The data breaks a rule for its type. The code ends with the kind and the id of the rule, "
    "and the rule sets the severity.",
    why="Your organisation wrote this rule to prevent a known problem.",
    hint="Change the data so that the rule holds.",
    layer="rules",
)
CODES: Final = (BUSINESS_RULE,)

_LONGEST_ID = 64


def skip(subject: Subject) -> str | None:
    return None if _rules(subject) else "no rules are set for this type"


def check(subject: Subject) -> Iterable[Issue]:
    from handoffaudit.validation.rule_evaluation import broken_rules  # noqa: PLC0415

    place_of = placer(subject.record)
    return limit_mixed_issues(
        rule_issue(one, place_of(one.location)) for one in broken_rules(_rules(subject), subject.record.data)
    )


def _rules(subject: Subject) -> list[tuple[str, "BusinessRule"]]:
    if not subject.demands.rules:
        return []
    from handoffaudit.validation.rule_evaluation import rules_for  # noqa: PLC0415

    named = subject.record.data.get("_output_type")
    types = {subject.record.handoff_type, named if isinstance(named, str) else subject.record.handoff_type}
    return rules_for(subject.demands.rules, types)


def rule_issue(broken: "Broken", place: Location) -> Issue:
    """Return the issue of a broken rule, located at `place` in the document."""
    rule = broken.rule
    return make(
        BUSINESS_RULE,
        f"{rule.rule_type.value}.{clean(rule.rule_id, _LONGEST_ID)}",
        location=place,
        message=broken.message,
        hint=broken.hint,
        severity=rule.severity,
        expected=broken.expected,
        actual=broken.actual,
        set_id=broken.set_id,
        rule_id=rule.rule_id,
        rule=rule.name,
        places=[dotted_path(one) for one in broken.places],
    )
