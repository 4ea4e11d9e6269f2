"""Codes of the rules layer."""

from handoffaudit.validation.catalogue.entry import Code
from handoffaudit.validation.issues import Severity

FAMILY = Code(
    code="business_rule",
    layer="rules",
    severity=Severity.ERROR,
    title="Breaks a business rule",
    what="The data breaks a rule that is set for its type; the code ends with the kind and the id of the rule, and the "
    "rule says how grave that is.",
    hint="Change the data so that the rule holds.",
)
