"""The text block in which an agent says at the end of its response what its handoff file would say."""

import re
from typing import Any, Final

MARK: Final = "---HANDOFF---"

_KEY = re.compile(r"[ \t>*`-]*(status|artifacts|next|summary)[ \t*`]*:[ \t]*(.*)", re.IGNORECASE | re.ASCII)
_BULLET = re.compile(r"[ \t]*[-*][ \t]+")
_NOBODY = ("null", "none")
_LONGEST = 20_000
_NEEDED = ("status", "artifacts", "next", "summary")


def read_block(text: str) -> dict[str, Any] | None:
    """The last block of `text` as the object of a handoff file, or None where there is none or a field is missing.

    >>> read_block("Done.\\n---HANDOFF---\\nSTATUS: complete\\nARTIFACTS: a.md, b.md\\nNEXT: none\\nSUMMARY: one line")
    {'status': 'complete', 'artifacts': ['a.md', 'b.md'], 'next': None, 'summary': 'one line'}
    """
    start = text.rfind(MARK)
    if start < 0:
        return None
    lines = _fields(text[start + len(MARK) :][:_LONGEST])
    if any(name not in lines for name in _NEEDED):
        return None
    status, following = _joined(lines["status"]), _joined(lines["next"])
    if not status or not following:
        return None
    return {
        "status": status,
        "artifacts": _listed(lines["artifacts"]),
        "next": None if following.lower() in _NOBODY else following,
        "summary": _joined(lines["summary"]),
    }


def _fields(block: str) -> dict[str, list[str]]:
    """Each key's lines, with those below it that begin no other key; a line of dashes or backticks ends the block."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in block.splitlines():
        if found and line.strip().startswith(("---", "```")):
            break
        match = _KEY.fullmatch(line)
        if match:
            current = found.setdefault(match[1].lower(), [])
            current[:] = [match[2].strip()]
        elif current is not None:
            current.append(line.strip())
    return found


def _joined(lines: list[str]) -> str:
    return " ".join(line for line in lines if line)


def _listed(lines: list[str]) -> list[str]:
    """Separated by commas, in brackets, or one a line."""
    text = ",".join(_BULLET.sub("", line, count=1) for line in lines if line).strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    names = [name.strip().strip("\"'`").strip() for name in text.split(",")]
    return [name for name in names if name and name.lower() not in _NOBODY]
