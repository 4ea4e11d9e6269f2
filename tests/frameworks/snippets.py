"""Snippets in the documentation of the plug-ins: on their pages, and on the page Connect."""

import re
from collections.abc import Iterator
from pathlib import Path

from handoffaudit_client import plugins

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str) -> Iterator[str]:
    return iter(re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE))


def example(name: str) -> str:
    return (DOCS / "examples" / "connect" / name).read_text()


def execute(code: str, names: dict[str, object]) -> None:
    exec(code, names)  # noqa: S102 (our own)
    for client in plugins._shared:
        assert client.flush()
