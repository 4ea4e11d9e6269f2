"""The documents that docs/formats.md shows, one per format and spelling."""

from pathlib import Path
from typing import Any

import orjson

from handoffaudit.validation.layers import chain, consistency, references, structure, tokens
from handoffaudit.validation.verdict import Verdict

from ..support import judge

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def example(name: str) -> dict[str, Any]:
    """A document of its own for each caller."""
    document: dict[str, Any] = orjson.loads((EXAMPLES / f"{name}.json").read_bytes())
    return document


def report(content: Any = None, **changes: Any) -> dict[str, Any]:
    """A report of a handoff file with that content, without a response unless one is given."""
    file = {"exists": content is not None, **({} if content is None else {"content": content})}
    whole = {**example("handoff-file-report"), "file": file, **changes}
    if "response_text" not in changes:
        del whole["response_text"]
    return whole


def checked(document: dict[str, Any], form: str | None = None, **given: Any) -> Verdict:
    """The verdict of the layers that look at the document's form, and not at what its claims rest on."""
    return judge(document, form, layers=(structure, tokens, chain, references, consistency), **given)
