"""The catalogue of rule codes: meaning, severity and hint of each, and the issues made from them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from handoffaudit.validation.catalogue import (
    Code,
    chain,
    consistency,
    critique,
    evidence,
    families,
    files,
    grounding,
    references,
    semantic,
    structure,
    tokens,
)
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.paths import Location
from handoffaudit.validation.text import brief, clean

__all__ = ["CATALOGUE", "FAMILIES", "Code", "blocks", "entry_of", "make"]

_MAX_SENTENCE = 600

CATALOGUE: Mapping[str, Code] = MappingProxyType(
    {
        entry.code: entry
        for layer in (structure, tokens, chain, references, consistency, evidence, grounding, files, semantic, critique)
        for entry in layer.CODES
    }
)
FAMILIES: Mapping[str, Code] = MappingProxyType(
    {entry.code: entry for entry in (families.RULE_FAMILY, families.SCHEMA_FAMILY)}
)
"""Families of generated codes, by the part before the first dot: `schema.minimum`, `business_rule.range.<rule_id>`."""
_OF_A_USER = Code(
    code="",
    layer="",
    severity=Severity.ERROR,
    title="Found by a layer of your own",
    what="A validator that was added to the shipped layers found it.",
    hint="Ask whoever added the layer.",
)


def entry_of(code: str) -> Code:
    """Return the catalogue entry of a code.

    A generated code has the entry of its family; the code of a user's own layer has a generic entry.
    """
    return CATALOGUE.get(code) or FAMILIES.get(code.partition(".")[0]) or _OF_A_USER


def make(
    code: str,
    *,
    location: Location = (),
    message: str,
    expected: Any = None,
    actual: Any = None,
    hint: str | None = None,
    severity: Severity | None = None,
    **metadata: Any,
) -> Issue:
    """Return an issue with the catalogue's layer and default hint for `code`.

    Values that come from the document are cut to size and made storable. `severity` overrides the catalogue's where the
    policy or a rule sets one. A code that is neither in the catalogue nor in a family is a bug of ours and raises
    KeyError.
    """
    entry = CATALOGUE.get(code) or FAMILIES[code.partition(".")[0]]
    return Issue(
        layer=entry.layer,
        code=code,
        severity=severity or entry.severity,
        message=clean(message, _MAX_SENTENCE),
        hint=clean(hint, _MAX_SENTENCE) if hint else entry.hint,
        location=tuple(clean(part) if isinstance(part, str) else part for part in location),
        expected=brief(expected),
        actual=brief(actual),
        metadata=brief(metadata) if metadata else {},
    )


def blocks(issue: Issue) -> bool:
    """Return whether the issue keeps a handoff from being accepted: an error, or a code that holds for a person."""
    if issue.severity in (Severity.ERROR, Severity.CRITICAL):
        return True
    return entry_of(issue.code).holds
