"""The documents that docs/formats.md shows, one per format and spelling."""

import copy
import json
from pathlib import Path
from typing import Any

from handoffaudit.validation.formats import FORMATS
from handoffaudit.validation.formats.base import Format, Variant
from handoffaudit.validation.layers import chain, consistency, references, structure, tokens
from handoffaudit.validation.verdict import Verdict

from ..support import judge

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
WIDTH = 120


def variants() -> dict[str, tuple[Format, Variant]]:
    """Return each variant of each format by the name of its example.

    The example of a format's first variant is named after the format, any other example after its schema.
    """
    return {
        variant.shape.name if number else form.name: (form, variant)
        for form in FORMATS
        for number, variant in enumerate(form.variants)
    }


FORMAT_OF = {name: form.name for name, (form, _) in variants().items()}


def example(name: str) -> dict[str, Any]:
    """Return a new copy of an example document for each caller."""
    return copy.deepcopy(variants()[name][1].example)


def render_examples() -> dict[str, str]:
    """Return the text of each file in docs/examples/ by the name of the example."""
    return {name: f"{_render(variant.example, 0, whole=True)}\n" for name, (_, variant) in variants().items()}


def _render(value: Any, indent: int, before: int = 0, *, whole: bool = False) -> str:
    """Return JSON in which an object stands on one line if the line has at most 119 characters."""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or (not whole and before + len(text) < WIDTH):
        return text
    inner = " " * (indent + 2)
    lines = []
    for key, item in value.items():
        start = f"{inner}{json.dumps(key)}: "
        lines.append(start + _render(item, indent + 2, len(start)))
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"


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
