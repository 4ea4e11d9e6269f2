"""The session that a repair takes out of a document and refers to as a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from handoffaudit.validation.formats import universal
from handoffaudit.validation.repair.results import Repair


@dataclass(slots=True)
class HeldFiles:
    """A `FileStore` in memory, for callers that answer the files beside the candidate."""

    files: dict[str, bytes] = field(default_factory=dict)

    def write(self, path: str, content: bytes) -> str:
        self.files[path] = content
        return path


def session_context(result: Repair, files: Mapping[str, bytes]) -> dict[str, Any] | None:
    """Return `path` and `content` of the file that the offered candidate refers to, of those the repair made.

    None where the session stayed in the document, was dropped, or no candidate is offered.
    """
    if result.repaired is None:
        return None
    named = {reference.path for reference in universal.references(result.repaired.document)}
    path = next((path for path in files if path in named), None)
    return None if path is None else {"path": path, "content": orjson.loads(files[path])}
