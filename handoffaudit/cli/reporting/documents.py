"""The report that is sent."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from handoffaudit.cli.reporting.looking import Looked
from handoffaudit.validation.formats.block import MARK

LONGEST_BODY = 900_000
# The last block counts, and of it no more is read.
LONGEST_RESPONSE = 40_000
_BEFORE_MARK = 2_000


@dataclass(frozen=True, slots=True)
class About:
    """Whose file it is, and where it is expected."""

    run_id: str
    agent: str
    phase: str
    path: str
    runtime: str = ""
    iteration: int | None = None


def document(
    about: About, looked: Looked, at: datetime, *, response: str | None = None, elsewhere: list[str] | None = None
) -> dict[str, Any]:
    """What `POST /handoff-files` takes, never longer than that. `at`: when the file was looked at."""
    file = looked.file
    made: dict[str, Any] = {"run_id": _text(about.run_id), "agent": _text(about.agent), "phase": _text(about.phase)}
    made |= {"runtime": _text(about.runtime)} if about.runtime else {}
    made |= {} if about.iteration is None else {"iteration": about.iteration}
    made |= {"expected_path": _text(about.path), "file": file, "timestamp": _written_time(at)}
    made |= {"elsewhere": [_text(path) for path in elsewhere]} if elsewhere else {}
    made |= {} if response is None else {"response_text": end_of(response)}
    if "content" in file and len(written(made)) > LONGEST_BODY:
        made["file"] = {"exists": True, "error": f"written out it is longer than {LONGEST_BODY:,} bytes"}
    return made


def _text(name: str) -> str:
    """Names of files may hold bytes that are no text, which no JSON takes."""
    return name.encode("utf-8", "replace").decode()


def _written_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def written(made: dict[str, Any]) -> str:
    return json.dumps(made)


def end_of(response: str) -> str:
    """The part of a response that its last block is in; of one without a block the end."""
    if len(response) <= LONGEST_RESPONSE:
        return response
    mark = response.rfind(MARK)
    start = max(0, mark - _BEFORE_MARK) if mark >= 0 else len(response) - LONGEST_RESPONSE
    return response[start : start + LONGEST_RESPONSE]
