"""The text block at the end of a response, in which an agent states the content of its handoff file."""

import re
from typing import Any, Final

MARK: Final = "---HANDOFF---"

_KEY = re.compile(r"[ \t>*`-]*(status|artifacts|next|summary)[ \t*`]*:[ \t]*(.*)", re.IGNORECASE | re.ASCII)

_BULLET = re.compile(r"[ \t]*[-*][ \t]+")

_NOBODY = ("null", "none")

_LONGEST = 20_000

_NEEDED = ("status", "artifacts", "next", "summary")


def read_block(text: str) -> dict[str, Any] | None:
    """Return the last block of `text` as the object of a handoff file, or None if a block or a field is missing.

    >>> read_block("Done.\\n---HANDOFF---\\nSTATUS: complete\\nARTIFACTS: a.md, b.md\\nNEXT: none\\nSUMMARY: one line")
    {'status': 'complete', 'artifacts': ['a.md', 'b.md'], 'next': None, 'summary': 'one line'}
    """
    lines = _fields(last_block(text))
    if _list_missing_fields(lines):
        return None
    following = _join_lines(lines["next"])
    return {
        "status": _join_lines(lines["status"]),
        "artifacts": _split_list(lines["artifacts"]),
        "next": None if following.lower() in _NOBODY else following,
        "summary": _join_lines(lines["summary"]),
    }


def last_block(text: str) -> str:
    """Return the first 20,000 characters after the last mark in `text`, empty if there is no mark.

    >>> last_block("---HANDOFF---\\nSTATUS: x")
    '\\nSTATUS: x'
    """
    start = text.rfind(MARK)
    return text[start + len(MARK) :][:_LONGEST] if start >= 0 else ""


def why_no_block(text: str) -> str:
    """Describe in one sentence what `read_block` misses in `text`. Return an empty text if nothing is missing.

    >>> why_no_block("---HANDOFF---\\nSTATUS: complete\\nNEXT: none")
    'The last ---HANDOFF--- block has no ARTIFACTS and no SUMMARY.'
    """
    if MARK not in text:
        return f"The response has no {MARK} block."
    lacking = [f"no {name.upper()}" for name in _list_missing_fields(_fields(last_block(text)))]
    *before, last = lacking or [""]
    return f"The last {MARK} block has {', '.join(before)}{' and ' if before else ''}{last}." if last else ""


def _list_missing_fields(lines: dict[str, list[str]]) -> list[str]:
    """Return the names of the missing fields; artifacts and a summary may be empty."""
    full = ("status", "next")
    return [name for name in _NEEDED if name not in lines or (name in full and not _join_lines(lines[name]))]


def _fields(block: str) -> dict[str, list[str]]:
    """Return the lines of each key, including the lines up to the next key.

    A line of dashes or backticks ends the block.
    """
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


def _join_lines(lines: list[str]) -> str:
    return " ".join(line for line in lines if line)


def _split_list(lines: list[str]) -> list[str]:
    """Return the entries of a list that is written with commas, in brackets, or with one entry per line."""
    text = ",".join(_BULLET.sub("", line, count=1) for line in lines if line).strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    names = [name.strip().strip("\"'`").strip() for name in text.split(",")]
    return [name for name in names if name and name.lower() not in _NOBODY]
