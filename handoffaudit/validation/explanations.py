"""Explanations of the catalogue's codes: why each matters, with a document that has the finding and its fixed version.

The texts are data (`catalogue/explained/`), one file per family, read at the first request. A test judges both
documents of every explanation.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

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
