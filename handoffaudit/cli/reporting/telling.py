"""What is said on standard error of a file that can't be used."""

from collections.abc import Iterator, Mapping
from typing import Any


def told(answer: Mapping[str, Any]) -> Iterator[str]:
    """Lines to read, after the log line; nothing in them is taken for commands by a terminal."""
    yield _plain(str(answer["why"]))
    for issue in answer["issues"]:
        yield _plain(f"  {issue['code']}: {issue['message']}")
        if issue["hint"]:
            yield _plain(f"    {issue['hint']}")


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
