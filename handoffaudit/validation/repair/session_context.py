"""The session that a repair moves from a document into a file that the document refers to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from handoffaudit.validation.formats import universal
from handoffaudit.validation.repair.compress import SESSION_FILE
from handoffaudit.validation.repair.results import Repair


def check_inside(path: str) -> None:
    """Raise `PermissionError` for a session file whose folder leads upwards, in the notation of any system."""
    if ".." in re.split(r"[/\\]", path):
        folder = path.removesuffix(f"/{SESSION_FILE}")
        raise PermissionError(0, f"{folder} leads out of its folder")


@dataclass(slots=True)
class HeldFiles:
    """A `FileStore` in memory, for callers that return the files beside the candidate.

    A path that `handoffaudit repair` would not write to is refused here too: the receiver of the response writes the
    file.
    """

    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, path: str, content: bytes) -> str:
        check_inside(path)
        if "\0" in path:
            raise ValueError("the path has a NUL character")
        self.files[path] = content
        return path


def session_context(result: Repair, files: Mapping[str, bytes]) -> dict[str, Any] | None:
    """Return `path` and `content` of the file that the offered candidate refers to.

    `files` are the files that the repair made. None where the session stayed in the document, was dropped, or no
    candidate is offered.
    """
    if result.repaired is None:
        return None
    named = {reference.path for reference in universal.references(result.repaired.document)}
    path = next((path for path in files if path in named), None)
    return None if path is None else {"path": path, "content": orjson.loads(files[path])}
