"""The catalogue of issue codes: what each means, how grave it is, and what makes it go away."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from handoffaudit.validation.catalogue import chain, consistency, references, structure, tokens
from handoffaudit.validation.catalogue.entry import Code
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.paths import Location
from handoffaudit.validation.text import brief, clean

__all__ = ["CATALOGUE", "Code", "blocks", "make"]

_MAX_SENTENCE = 600

CATALOGUE: Mapping[str, Code] = MappingProxyType(
    {entry.code: entry for layer in (structure, tokens, chain, references, consistency) for entry in layer.CODES}
)


def make(
    code: str,
    *,
    location: Location = (),
    message: str,
    expected: Any = None,
    actual: Any = None,
    hint: str | None = None,
    **metadata: Any,
) -> Issue:
    """An issue of the catalogue's `code`. Whatever comes from the document is cut to size and made storable here.

    A code that is not in the catalogue is our bug and raises KeyError.
    """
    entry = CATALOGUE[code]
    return Issue(
        layer=entry.layer,
        code=code,
        severity=entry.severity,
        message=clean(message, _MAX_SENTENCE),
        hint=clean(hint, _MAX_SENTENCE) if hint else entry.hint,
        location=tuple(clean(part) if isinstance(part, str) else part for part in location),
        expected=brief(expected),
        actual=brief(actual),
        metadata=brief(metadata) if metadata else {},
    )


def blocks(issue: Issue) -> bool:
    """Whether it keeps a handoff from being accepted: an error, or a code that asks for a person."""
    if issue.severity in (Severity.ERROR, Severity.CRITICAL):
        return True
    entry = CATALOGUE.get(issue.code)
    return entry is not None and entry.holds
