"""Why each code of the catalogue matters, and an example: a document with the finding, and the same one mended.

The texts are data (`catalogue/explained/`), one file a family, read when they are first asked for. A test judges both
documents of each.
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
    """`before` and `after` are documents, or texts that are none; `beside` is the context and evidence sent along.

    `judged` says under what it was judged where that matters, in the words of the tests; `note` says it to people.
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
    """That of the code, or of its family for a code that is made as it is needed; None for a code of somebody's own."""
    family = code.partition(".")[0]
    # Whoever makes names up has no file looked for, and nothing kept.
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
    """What is not said of the mended one is as before."""
    same = {"beside_after": told.get("beside", {}), "judged_after": told.get("judged", {})}
    return Explanation(code=code, **same | told)


def text_of(document: Any) -> str:
    """As it is shown: a text that is no document stays as it is."""
    return document if isinstance(document, str) else json.dumps(document, indent=2, ensure_ascii=False)
