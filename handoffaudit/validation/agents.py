"""The registry of known agents: the names of the skills in a folder."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from pathlib import Path, PurePath
from typing import Final

from handoffaudit.validation.text import clean, either, nearest, show

SKILL_FILE: Final = "SKILL.md"

ALWAYS_KNOWN: Final = frozenset({"orchestrator", "end"})

"""Targets that a format fills in if the sender names none."""

_FENCE = "---"

_LONGEST = 64 * 1024

_MOST_LINES = 500

_MOST_NEAR = 3

MOST_LISTED: Final = 10

_FIELD = re.compile(r"""["']?([A-Za-z_][\w.-]*)["']?\s*:(?:\s+(.*))?""")

_QUOTED = re.compile(r"""(?:"([^"\\]*)"|'([^']*)')\s*(?:#.*)?""")

_COMMENT = re.compile(r"(?:^|\s)#.*")

_NO_PLAIN_TEXT = tuple("[{\"'|>&*!%@`")


@dataclass(frozen=True, slots=True)
class Registry:
    """The names of the known agents.

    `warnings` has one line for each skipped skill.
    """

    names: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


class _UnreadableError(Exception):
    pass


def skill_files(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the path and the text of every skill below `folder`, sorted by path.

    The text is None if the file cannot be read. Links to folders are followed one level deep.
    """
    for path in sorted({*folder.rglob(SKILL_FILE), *folder.glob(f"*/{SKILL_FILE}")}):
        yield str(path), _read_text(path)


def _read_text(path: Path) -> str | None:
    try:
        # Read only regular files: opening a named pipe would block until a writer opens it.
        if not path.is_file():
            return None
        with path.open(encoding="utf-8") as file:
            return file.read(_LONGEST)
    except (OSError, UnicodeDecodeError):
        return None


def discover(files: Iterable[tuple[str, str | None]]) -> Registry:
    """Return the registry of the skills in these files.

    The name of a skill is the `name` in its front matter, else the name of its folder.

    >>> discover([("skills/critic/SKILL.md", "---\\nname: the-critic\\n---\\n# How to judge")]).names
    frozenset({'the-critic'})
    >>> discover([("skills/critic/SKILL.md", "---\\nname: the-critic\\n# How to judge")]).warnings
    ('Could not parse critic. Skipping.',)
    """
    names: set[str] = set()
    warnings: list[str] = []
    for path, text in files:
        folder = PurePath(path).parent.name
        try:
            name = _name(text) or folder
        except _UnreadableError:
            warnings.append(f"Could not parse {clean(folder or path)}. Skipping.")
        else:
            names.add(clean(name))
    return Registry(frozenset(names) - {""}, tuple(warnings))


@lru_cache(maxsize=1024)
def closest_agents(target: str, known: frozenset[str]) -> tuple[str, ...]:
    """Return the known names most similar to `target`, the most similar first."""
    return tuple(nearest(target, sorted(known), _MOST_NEAR))


@lru_cache(maxsize=1024)
def listed_agents(target: str, known: frozenset[str]) -> tuple[str, ...]:
    """Return at most `MOST_LISTED` known names: those most similar to `target`, then the others in sorted order."""
    near = closest_agents(target, known)
    return (*near, *nsmallest(MOST_LISTED - len(near), known.difference(near)))


def known_agents_hint(near: tuple[str, ...], listed: tuple[str, ...], known: int) -> str | None:
    """Return a hint that names the agents to choose from, or None if the registry is empty."""
    if not listed:
        return None
    suggestion = f"Did you mean {either(map(show, near))}? " if near else ""
    more = f" (+{known - len(listed):,} more)" if known > len(listed) else ""
    agents = f"Known agents: {', '.join(map(show, listed))}{more}."
    return f"{suggestion}{agents} If the target is another agent, add its skill to the registry."


def _name(text: str | None) -> str:
    """Return the name in the front matter, or an empty text if there is no name or no front matter.

    Raises _UnreadableError if the front matter cannot be parsed.
    """
    if text is None:
        raise _UnreadableError
    first, *lines = text.removeprefix("\ufeff").splitlines() or [""]
    if first.rstrip() != _FENCE:
        return ""
    name = ""
    for line in lines[:_MOST_LINES]:
        if line.rstrip() == _FENCE:
            return name
        # Indented lines and list items belong to the field before them.
        if not line.strip() or line[0] in " \t#-":
            continue
        field = _FIELD.fullmatch(line.rstrip())
        if field is None:
            raise _UnreadableError
        if field[1] == "name":
            name = _scalar(field[2] or "")
    raise _UnreadableError


def _scalar(value: str) -> str:
    """Return the text of a YAML scalar on one line. Raises _UnreadableError for any other YAML value."""
    if quoted := _QUOTED.fullmatch(value):
        return (quoted[1] or quoted[2] or "").strip()
    plain = _COMMENT.sub("", value).strip()
    if plain.startswith(_NO_PLAIN_TEXT) or ": " in plain:
        raise _UnreadableError
    return plain
