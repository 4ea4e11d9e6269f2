"""The layers in the order they run, and the catalogue of the rule codes that layers and formats declare.

To add a layer, write a module and name it in `LAYERS`. Each code has an example: a document with the finding, and a
fixed version of the document. The examples are in data files (`examples/`), one per family, which are read at the first
request. A test judges both documents of every example.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from handoffaudit.validation.formats import file_report, handoff_file
from handoffaudit.validation.handoff_files import FALLBACK_LOCATION
from handoffaudit.validation.issues import Code, Severity
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
from handoffaudit.validation.layers.base import (
    AskedLater,
    CouldNotRunError,
    Findings,
    History,
    Layer,
    NotCheckedError,
    Subject,
)
from handoffaudit.validation.schema_explanations import SCHEMA

__all__ = [
    "LAYERS",
    "MODEL_LAYERS",
    "AskedLater",
    "CouldNotRunError",
    "Findings",
    "History",
    "Layer",
    "NotCheckedError",
    "Subject",
]


class ShippedLayer(Layer, Protocol):
    """A layer of this package; `CODES` are the rule codes of its findings."""

    @property
    def CODES(self) -> tuple[Code, ...]: ...  # noqa: N802


LAYERS: tuple[ShippedLayer, ...] = (structure, tokens, chain, references, consistency, evidence, grounding, rules)
MODEL_LAYERS: tuple[ShippedLayer, ...] = (semantic, critique)
"""Layers that ask an LLM. They run after the other layers, if an LLM is to be asked."""


FAMILIES: Final[Mapping[str, Code]] = MappingProxyType({entry.code: entry for entry in (rules.BUSINESS_RULE, SCHEMA)})
"""Families of generated codes, by the part before the first dot: `schema.minimum`, `business_rule.range.<rule_id>`."""

CATALOGUE: Final[Mapping[str, Code]] = MappingProxyType(
    {
        entry.code: entry
        for codes in (
            *(layer.CODES for layer in LAYERS),
            (FALLBACK_LOCATION, file_report.HANDOFF_FILE_MISSING, handoff_file.STRICT, file_report.TEXT_FALLBACK),
            *(layer.CODES for layer in MODEL_LAYERS),
        )
        for entry in codes
        if entry.code not in FAMILIES
    }
)

_OF_A_USER: Final = Code(
    code="",
    severity=Severity.ERROR,
    title="Finding of a custom layer",
    what="A validator that your organisation added to the shipped layers reported this finding.",
    why="",
    hint="Ask the person who added the layer.",
)

_FOLDER: Final = Path(__file__).parent / "examples"


def entry_of(code: str) -> Code:
    """Return the catalogue entry of a code.

    A generated code has the entry of its family. The code of a custom layer has a generic entry.
    """
    return CATALOGUE.get(code) or FAMILIES.get(code.partition(".")[0]) or _OF_A_USER


@dataclass(frozen=True, slots=True)
class Example:
    """The example of one code.

    `before` and `after` are documents, or texts that are not JSON. `beside` holds the fields sent with `before`, such
    as context and evidence. `judged` holds the settings that `before` needs, as the tests name them. `beside_after` and
    `judged_after` are the same for `after`. `note` describes the settings for people.
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
    """Return the example of the code or of its family, or None for the code of a custom layer."""
    family = code.partition(".")[0]
    # Read only the files of known families: an invented name must not open a file or fill the cache.
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
    """Return an example. By default, the fixed version has the settings of the first version."""
    same = {"beside_after": fields.get("beside", {}), "judged_after": fields.get("judged", {})}
    return Example(code=code, **same | fields)


def text_of(document: Any) -> str:
    """Return the document as indented JSON, or unchanged if it is a text that is not JSON."""
    return document if isinstance(document, str) else json.dumps(document, indent=2, ensure_ascii=False)
