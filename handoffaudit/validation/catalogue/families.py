"""Families of rule codes whose members depend on a rule or a schema: `business_rule.*` and `schema.*`."""

from handoffaudit.validation.catalogue import Code
from handoffaudit.validation.issues import Severity

RULE_FAMILY = Code(
    code="business_rule",
    layer="rules",
    severity=Severity.ERROR,
    title="Breaks a business rule",
    what="The data breaks a rule that is set for its type; the code ends with the kind and the id of the rule, and the "
    "rule says how grave that is.",
    hint="Change the data so that the rule holds.",
)

SCHEMA_FAMILY = Code(
    code="schema",
    layer="structure",
    severity=Severity.ERROR,
    title="Breaks the schema of its type",
    what="The data breaks a JSON Schema that the sender gave or that is registered for the type; the code ends with "
    "the schema keyword that failed.",
    hint="Change the data so that it keeps to the schema.",
)
