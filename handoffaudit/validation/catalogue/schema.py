"""Codes of a JSON Schema given by the sender or registered for the type."""

from handoffaudit.validation.catalogue.entry import Code
from handoffaudit.validation.issues import Severity

FAMILY = Code(
    code="schema",
    layer="structure",
    severity=Severity.ERROR,
    title="Breaks the schema of its type",
    what="The data breaks a JSON Schema that the sender gave or that is registered for the type; the code ends with "
    "the schema keyword that failed.",
    hint="Change the data so that it keeps to the schema.",
)
