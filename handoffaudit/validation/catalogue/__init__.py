"""The entries of the catalogue of rule codes, in three modules, and the class of an entry."""

from dataclasses import dataclass

from handoffaudit.validation.issues import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """A rule code.

    `holds` is True if the handoff waits for the decision of a person. `approvable` is True if a person may accept a
    handoff with a finding of this code.
    """

    code: str
    layer: str
    severity: Severity
    title: str
    what: str
    hint: str
    holds: bool = False
    approvable: bool = True
