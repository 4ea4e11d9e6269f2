"""JSON Schemas of users for the data of single types (`docs/decisions/0015-schemas-of-users.md`).

`schema` compiles a schema and checks data against it, `cost` limits the cost of the check in advance, and `messages`
turns errors into issues.
"""

from typing import Final

from handoffaudit.validation.issues import Code, Severity

SCHEMA: Final = Code(
    "schema",
    Severity.ERROR,
    "Breaks the schema of its type",
    what="The data breaks a JSON Schema that the sender gave or that is registered for the type; the code ends with "
    "the schema keyword that failed.",
    why="Your schema states what the next step needs. Data that does not match it fails in that step.",
    hint="Change the data so that it matches the schema.",
    layer="structure",
)
