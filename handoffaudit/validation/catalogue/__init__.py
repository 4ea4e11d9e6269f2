"""The entries of the catalogue of issue codes, one module for each layer, and what an entry is."""

from dataclasses import dataclass

from handoffaudit.validation.issues import Severity


@dataclass(frozen=True, slots=True)
class Code:
    """One entry. `holds`: a person decides; `approvable`: a person may let a handoff with it through."""

    code: str
    layer: str
    severity: Severity
    title: str
    what: str
    hint: str
    holds: bool = False
    approvable: bool = True
