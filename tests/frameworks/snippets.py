"""Snippets in the documentation of the plug-ins: in their modules, on their pages, and on the page Connect."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from handoffaudit_client import plugins

DOCS = Path(__file__).parents[2] / "docs"


def snippet_of(module: ModuleType) -> str:
    """Return the first indented lines of a module's documentation, a program. Raises `ValueError` without them."""
    found = re.search(r"(?:^ {4}.*\n|^\n(?= {4}))+", module.__doc__ or "", re.MULTILINE)
    if found is None:
        raise ValueError(f"The documentation of {module.__name__} has no indented lines.")
    return textwrap.dedent(found[0])


def blocks(page: str) -> Iterator[str]:
    return iter(re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE))


def example(name: str) -> str:
    return (DOCS / "examples" / "connect" / name).read_text()


def execute(code: str, names: dict[str, object]) -> None:
    exec(code, names)  # noqa: S102 (our own)
    for client in plugins._shared:
        assert client.flush()
