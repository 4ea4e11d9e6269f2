"""The catalogue of rule codes: meaning, severity, hint and explanation of each, and the issues made from them.

An explanation says why a code matters, with a document that has the finding and its fixed version. The texts are data
(`catalogue/explained/`), one file per family, read at the first request. A test judges both documents of every
explanation.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from handoffaudit.validation.catalogue import Code, claims, document, trace
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.paths import Location
from handoffaudit.validation.text import brief, clean

__all__ = ["CATALOGUE", "FAMILIES", "Code", "Explanation", "blocks", "entry_of", "explanation_of", "make", "text_of"]

_MAX_SENTENCE = 600

CATALOGUE: Mapping[str, Code] = MappingProxyType(
    {
        entry.code: entry
        for codes in (
            document.STRUCTURE_CODES,
            document.TOKENS_CODES,
            trace.CHAIN_CODES,
            trace.REFERENCES_CODES,
            trace.CONSISTENCY_CODES,
            claims.EVIDENCE_CODES,
            claims.GROUNDING_CODES,
            document.FILES_CODES,
            claims.SEMANTIC_CODES,
            claims.CRITIQUE_CODES,
        )
        for entry in codes
    }
)

FAMILIES: Mapping[str, Code] = MappingProxyType(
    {entry.code: entry for entry in (document.RULE_FAMILY, document.SCHEMA_FAMILY)}
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


_FOLDER: Final = Path(__file__).parent / "catalogue" / "explained"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one code.

    `before` and `after` are documents, or texts that are not JSON; `beside` is the context and evidence sent along.
    `judged` holds the settings of the example where they matter, in the terms of the tests; `note` states them for
    people.
    """

    code: str
    why: str
    format: str
    before: Any
    after: Any
    beside: Mapping[str, Any] = field(default_factory=dict)
    beside_after: Mapping[str, Any] = field(default_factory=dict)
    judged: Mapping[str, Any] = field(default_factory=dict)
    judged_after: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def explanation_of(code: str) -> Explanation | None:
    """Return the explanation of the code, else of the code's family; None for the code of a user's own layer.

    Generated codes share the explanation of their family.
    """
    family = code.partition(".")[0]
    # Read only files of known families: an invented name must neither open a file nor fill the cache.
    told = _family(family) if family in _families() else {}
    return told.get(code) or told.get(family)


@cache
def _families() -> frozenset[str]:
    return frozenset(path.stem for path in _FOLDER.glob("*.json"))


@cache
def _family(name: str) -> Mapping[str, Explanation]:
    written = (_FOLDER / f"{name}.json").read_text(encoding="utf-8")
    return {code: _explanation(code, told) for code, told in json.loads(written).items()}


def _explanation(code: str, told: dict[str, Any]) -> Explanation:
    """Return the explanation; settings that the fixed version does not give are the same as before."""
    same = {"beside_after": told.get("beside", {}), "judged_after": told.get("judged", {})}
    return Explanation(code=code, **same | told)


def text_of(document: Any) -> str:
    """Return the document as indented JSON; a text that is not JSON is returned unchanged."""
    return document if isinstance(document, str) else json.dumps(document, indent=2, ensure_ascii=False)
