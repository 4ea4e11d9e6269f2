"""Agents: the registry of known agents, which is filled from a folder of skills, and the roles of agents."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from pathlib import Path, PurePath
from typing import Final, NamedTuple

from handoffaudit.validation.json_text import compact
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import clean, either, nearest, show

SKILL_FILE: Final = "SKILL.md"

# Targets that a format fills in if the document names no target. They need no skill.
ALWAYS_KNOWN: Final = frozenset({"orchestrator", "end"})

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
    """The names of the known agents. `warnings` has one line for each skipped skill."""

    names: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


class _UnreadableError(Exception):
    pass


def skill_files(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the path and the text of every skill below `folder`, sorted by path.

    The text has at most 65,536 characters, and is None if the file cannot be read. Links to folders are followed one
    level deep.
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
    """Return the three known names that are most similar to `target`, or fewer, the most similar first."""
    return tuple(nearest(target, sorted(known), _MOST_NEAR))


@lru_cache(maxsize=1024)
def listed_agents(target: str, known: frozenset[str]) -> tuple[str, ...]:
    """Return at most `MOST_LISTED` known names: names similar to `target`, then other names in sorted order."""
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

    Raises _UnreadableError if `text` is None, which means an unreadable file, or if the front matter cannot be parsed.
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


class AgentRole(StrEnum):
    """The role of an agent: a worker writes claims, an observer returns outputs of tools, a person states new facts."""

    WORKER = "worker"
    OBSERVER = "observer"
    PERSON = "person"


class SourceRole(NamedTuple):
    """The role of the source of a handoff. `why` is the reason for a guessed role, and empty for any other role."""

    role: AgentRole
    is_declared: bool = False
    why: str = ""

    @property
    def is_worker(self) -> bool:
        return self.role is AgentRole.WORKER

    @property
    def is_guess(self) -> bool:
        """Return whether the role was guessed, from signs that the source brings new facts."""
        return not self.is_declared and not self.is_worker

    @property
    def is_evidence(self) -> bool:
        """Return whether data from the source counts as evidence in the trace."""
        return self.is_declared and not self.is_worker


WORKER: Final = SourceRole(AgentRole.WORKER)

PEOPLE: Final = frozenset({"client", "customer", "enduser", "human", "humanuser", "person", "user", "userproxy"})

PROGRAMS: Final = frozenset(
    {"codeexecutor", "codeinterpreter", "computerterminal", "executor", "interpreter", "shell", "terminal", "tool"}
)

_SEPARATORS = str.maketrans("", "", "-_. ")

# The behaviour of an agent is a text with one of these characters for each of its newest handoffs, the newest last.
OBSERVED: Final = "1"
WRITTEN: Final = "0"
MOST_REMEMBERED: Final = 8
_SHARE_OBSERVED: Final = 0.6


class Guess(NamedTuple):
    """A guessed role, and the behaviour of the agent, including this handoff."""

    role: SourceRole
    behaviour: str


def guess_role(record: Record, behaviour: str = "") -> Guess:
    """Return the role that the name, the form and the earlier handoffs of the source suggest.

    `behaviour` holds the forms of the source's newest handoffs before this handoff. The name of a person or a tool
    decides the role. Otherwise, an answer to a tool call comes from an observer. Otherwise, the source is an observer
    if this handoff, and at least 60 % of the source's newest handoffs (this one and up to seven before it), look like
    the output of a program. Any other source is a worker. Earlier handoffs count, because an agent with a
    browser hands over pages, and often also answers of its own.
    """
    was_called = record.data.get("role") == "tool" or _was_called(record)
    has_form = was_called or looks_observed(record)
    newest = (behaviour + (OBSERVED if has_form else WRITTEN))[-MOST_REMEMBERED:]
    role = guess_by_name(record.source_agent_id)
    if role is None and was_called:
        role = SourceRole(AgentRole.OBSERVER, why="the handoff is the answer of a tool")
    if role is None and has_form:
        role = guess_by_behaviour(newest)
    return Guess(role or WORKER, newest)


# Cached, because the same agents hand over again and again.
@lru_cache(maxsize=1024)
def guess_by_name(agent: str) -> SourceRole | None:
    """Return the role that the name of an agent suggests, or None."""
    name = agent.lower().translate(_SEPARATORS)
    if name in PEOPLE:
        return SourceRole(AgentRole.PERSON, why="the name is that of a person")
    if name in PROGRAMS:
        return SourceRole(AgentRole.OBSERVER, why="the name is that of a tool")
    return None


def guess_by_behaviour(behaviour: str) -> SourceRole | None:
    """Return the role that the forms of an agent's newest handoffs suggest, or None."""
    observed = behaviour.count(OBSERVED)
    if observed < _SHARE_OBSERVED * len(behaviour):
        return None
    why = f"{observed} of its last {len(behaviour)} handoffs look like the output of a program"
    return SourceRole(AgentRole.OBSERVER, why=why)


_LONGEST_READ: Final = 4_000
_HEAD: Final = 600
_OPENING: Final = 200
_MOST_LOOKED_AT: Final = 60
_FEWEST_LINES: Final = 3
_MOST_TEXTS: Final = 20

_ENDS_A_PROGRAM = re.compile(
    r"\bexit[ _-]?(?:code|status)\b(?: was| is)? ?[:=] ?-?\d|\breturn[ _]?code\b ?[:=] ?-?\d"
    r"|^Traceback \(most recent call last\):|^(?:ba|z)?sh: .{1,100}: (?:command not found|No such file)",
    re.IGNORECASE | re.MULTILINE,
)

_OF_PROGRAMS: Final = ("exit", "return", "traceback", "sh: ")

_PAGE = re.compile(r"\b(?:viewport|screenshot|page \d+ of \d+|showing (?:page|lines?|results?) \d)", re.IGNORECASE)

_OF_PAGES: Final = ("viewport", "screenshot", "page ", "showing ")

_PLACE = re.compile(
    r"[a-z][a-z0-9+.-]{1,20}://\S|^(?:address|file|path|url) {0,3}: {0,3}\S", re.IGNORECASE | re.MULTILINE
)

_ADDRESS_LINE = re.compile(r"\W{0,5}(?:\w{1,12}: {0,2})?https?://\S+\W{0,3}$")

# A line of a listing begins with permissions, a line number, a place in a file, or a date and time.
_LISTED = re.compile(
    r"[-dlcbps][rwxsStT-]{9}[.+@]?\s| {0,8}\d{1,6}(?:\t| ?\u2192)|[\w./-]{1,200}:\d{1,6}:"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
)


def looks_observed(record: Record) -> bool:
    """Return whether the longest text of the data has the form of a program's output.

    Such a form is an exit code, a traceback or an error of a shell at the beginning. Another is a page with its address
    and a note on the part that is visible. Lists of search results and listings of folders, files and logs are such
    forms, too. JSON is no such form, because many LLMs answer in JSON. Except for lists and listings, a form inside or
    after fenced code does not count, because LLMs write fenced code.
    """
    texts = (value for value in islice(record.data.values(), _MOST_TEXTS) if isinstance(value, str))
    text = max(texts, key=len, default="")[:_LONGEST_READ].lstrip()
    return bool(text) and _has_form(text)


def _has_form(text: str) -> bool:
    head = text[:_HEAD].partition("```")[0]
    folded = head.lower()
    # The search for plain words is many times faster than the search for the patterns.
    if any(map(folded[: _OPENING + 1].__contains__, _OF_PROGRAMS)) and _ENDS_A_PROGRAM.search(head, 0, _OPENING):
        return True
    if any(map(folded.__contains__, _OF_PAGES)) and _PAGE.search(head) and _PLACE.search(head):
        return True
    lines = [line for line in text.split("\n")[:_MOST_LOOKED_AT] if line.strip()]
    if "://" in text:
        addresses = [at for at, line in enumerate(lines) if _ADDRESS_LINE.match(line)]
        if len(addresses) >= _FEWEST_LINES and addresses[0] < _FEWEST_LINES:
            return True
    return len(lines) >= _FEWEST_LINES and sum(map(bool, map(_LISTED.match, lines))) * 2 > len(lines)


def _was_called(record: Record) -> bool:
    source = record.source_agent_id
    if not source:
        return False
    context = compact(record.context)
    # Most names are not in the context at all, and this test is cheaper than the search for a call.
    return source.encode("utf-8", "surrogatepass") in context and bool(_call_of(source).search(context))


@lru_cache(maxsize=1024)
def _call_of(name: str) -> "re.Pattern[bytes]":
    """Return a pattern for a call of the tool as LLMs write it, even inside a text with escaped quotation marks."""
    escaped = re.escape(name.encode("utf-8", "surrogatepass"))
    return re.compile(
        # The pattern leaves out the backslashes before the first quotation mark, because a pattern that begins with
        # plain text is many times faster.
        rb'"name\\{0,3}": ?\\{0,3}"' + escaped + rb'\\{0,3}", ?\\{0,3}"(?:arguments|input|parameters|args)\\{0,3}"'
    )
