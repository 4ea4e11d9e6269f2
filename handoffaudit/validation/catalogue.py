"""The catalogue of rule codes: every code that the layers and formats declare, with the example of each.

An example is a document that has the finding, and its fixed version. The examples are data (`layers/examples/`), one
file per family, read at the first request. A test judges both documents of every example.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from handoffaudit.validation.codes import Code
from handoffaudit.validation.formats import file_report, handoff_file
from handoffaudit.validation.handoff_files import FALLBACK_LOCATION
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.layers import (
    chain,
    consistency,
    critique,
    evidence,
    grounding,
    references,
    rules,
    semantic,
    structure,
    tokens,
)
from handoffaudit.validation.schemas import SCHEMA

CATALOGUE: Final[Mapping[str, Code]] = MappingProxyType(
    {
        entry.code: entry
        for codes in (
            structure.CODES,
            tokens.CODES,
            chain.CODES,
            references.CODES,
            consistency.CODES,
            evidence.CODES,
            grounding.CODES,
            (FALLBACK_LOCATION, file_report.HANDOFF_FILE_MISSING, handoff_file.STRICT, file_report.TEXT_FALLBACK),
            semantic.CODES,
            critique.CODES,
        )
        for entry in codes
    }
)

FAMILIES: Final[Mapping[str, Code]] = MappingProxyType({entry.code: entry for entry in (rules.BUSINESS_RULE, SCHEMA)})
"""Families of generated codes, by the part before the first dot: `schema.minimum`, `business_rule.range.<rule_id>`."""

_OF_A_USER: Final = Code(
    code="",
    severity=Severity.ERROR,
    title="Found by a layer of your own",
    what="A validator that was added to the shipped layers found it.",
    why="",
    hint="Ask whoever added the layer.",
)

_FOLDER: Final = Path(__file__).parent / "layers" / "examples"


def entry_of(code: str) -> Code:
    """Return the catalogue entry of a code.

    A generated code has the entry of its family; the code of a user's own layer has a generic entry.
    """
    return CATALOGUE.get(code) or FAMILIES.get(code.partition(".")[0]) or _OF_A_USER


@dataclass(frozen=True, slots=True)
class Example:
    """The example of one code.

    `before` and `after` are documents, or texts that are not JSON; `beside` is the context and evidence sent along.
    `judged` holds the settings of the example where they matter, in the terms of the tests; `note` states them for
    people.
    """

    code: str
    format: str
    before: Any
    after: Any
    beside: Mapping[str, Any] = field(default_factory=dict)
    beside_after: Mapping[str, Any] = field(default_factory=dict)
    judged: Mapping[str, Any] = field(default_factory=dict)
    judged_after: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


def example_of(code: str) -> Example | None:
    """Return the example of the code, else of the code's family; None for the code of a user's own layer."""
    family = code.partition(".")[0]
    # Read only files of known families: an invented name must neither open a file nor fill the cache.
    examples = _examples(family) if family in _families() else {}
    return examples.get(code) or examples.get(family)


@cache
def _families() -> frozenset[str]:
    return frozenset(code.partition(".")[0] for code in (*CATALOGUE, *FAMILIES))


@cache
def _examples(family: str) -> Mapping[str, Example]:
    written = (_FOLDER / f"{family}.json").read_text(encoding="utf-8")
    return {code: _example(code, fields) for code, fields in json.loads(written).items()}


def _example(code: str, fields: dict[str, Any]) -> Example:
    """Return the example; settings that the fixed version does not give are the same as before."""
    same = {"beside_after": fields.get("beside", {}), "judged_after": fields.get("judged", {})}
    return Example(code=code, **same | fields)


def text_of(document: Any) -> str:
    """Return the document as indented JSON; a text that is not JSON is returned unchanged."""
    return document if isinstance(document, str) else json.dumps(document, indent=2, ensure_ascii=False)
