"""Snippets in the documentation of the plug-ins: in their modules, on their pages, and on the page Connect."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from handoffaudit_client import plugins

DOCS = Path(__file__).parents[2] / "docs"


def snippet_of(module: ModuleType) -> str:
    """Return the indented lines of a module's documentation, which are a program. Raises `ValueError` without them."""
    text = module.__doc__ or ""
    begin = text.index("\n    ")
    return textwrap.dedent(text[begin : text.index("\n\nThe address", begin)])


def blocks(page: str) -> Iterator[str]:
    return iter(re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE))


def example(name: str) -> str:
    return (DOCS / "examples" / "connect" / name).read_text()


def execute(code: str, names: dict[str, object]) -> None:
    exec(code, names)  # noqa: S102 (our own)
    for client in plugins._shared:
        assert client.flush()
