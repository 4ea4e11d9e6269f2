"""The documents that docs/formats.md shows, one per format and spelling."""

from pathlib import Path
from typing import Any

import orjson

from handoffaudit.validation.layers import chain, consistency, references, structure, tokens
from handoffaudit.validation.verdict import Verdict

from ..support import judge

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


def example(name: str) -> dict[str, Any]:
    """Return a new copy of an example document for each caller."""
    document: dict[str, Any] = orjson.loads((EXAMPLES / f"{name}.json").read_bytes())
    return document


def report(content: Any = None, **changes: Any) -> dict[str, Any]:
    """Return the report of a handoff file with that content, without a response unless a response is given."""
    file = {"exists": content is not None, **({} if content is None else {"content": content})}
    whole = {**example("handoff-file-report"), "file": file, **changes}
    if "response_text" not in changes:
        del whole["response_text"]
    return whole


def checked(document: dict[str, Any], form: str | None = None, **given: Any) -> Verdict:
    """Return the verdict of the layers that check the document's form, without the grounding of its claims."""
    return judge(document, form, layers=(structure, tokens, chain, references, consistency), **given)
