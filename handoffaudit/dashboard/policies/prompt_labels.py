"""Labels of LLM prompts: uses, scopes, help and changes."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from handoffaudit.dashboard.policies.forms import Line, format_optional, format_path
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.policy.versions import WHOLE_ROW, Change
from handoffaudit.validation.prompts.question import LONGEST_PROMPT, VERSION, Use, default_prompt, prompt

LONGEST_NAME = 60

LONGEST_TEXT = 300

LONGEST_CHANGE = 400

NAMES = {"scope": "For", "name": "Its name", "text": "Prompt", "use": "Use"}

HELP = {
    "name": "of the handoff type or the workflow, as senders write it; one * in a workflow's name stands for anything",
    "text": f"plain text, at most {LONGEST_PROMPT:,} characters; what is always added stands below",
}

ALL, TYPE, WORKFLOW = "all", "type", "workflow"

SCOPES = {ALL: "all handoffs", TYPE: "one handoff type", WORKFLOW: "one workflow"}

TITLES = {
    Use.GROUNDING: "Grounding check",
    Use.OBJECTIVE: "Objective check",
    Use.CRITIQUE: "Critique",
    Use.REPAIR: "Repair",
}

ASKS = {
    Use.GROUNDING: "Is what is handed over supported by its context, made up, or in contradiction with itself? Asked "
    "where Strictness is strict, of all but delegations.",
    Use.OBJECTIVE: "Does the deliverable meet the objective? Asked of delegations, where Strictness is strict.",
    Use.CRITIQUE: "What speaks against acting on it? Asked where Strictness says so.",
    Use.REPAIR: "How does the document read once its faults are mended? Asked where no rule can mend them.",
}

GIVEN = {
    Use.GROUNDING: ("context", "evidence", "data"),
    Use.OBJECTIVE: ("objective", "deliverable"),
    Use.CRITIQUE: ("output", "evidence", "context"),
    Use.REPAIR: ("document", "findings"),
}


@dataclass(frozen=True, slots=True)
class ShippedParts:
    """The parts that the LLM gets beside the prompt: tags around the judged texts, a frame, and the answer format."""

    tags: tuple[str, ...]
    frame: str
    answer: str


def shipped_parts(use: Use) -> ShippedParts:
    return ShippedParts(GIVEN[use], prompt(f"frame-{VERSION}"), prompt(f"{use.value}-answer-{VERSION}"))


def shipped_text(use: Use) -> str:
    return default_prompt(use).text


def scope(handoff_type: Any, workflow: Any) -> str:
    """Describe the handoffs that a prompt is for."""
    if workflow is not None:
        return f"workflow {cut(str(workflow), LONGEST_NAME)}"
    return "all handoffs" if handoff_type is None else f"type {cut(str(handoff_type), LONGEST_NAME)}"


def row_name(name: str) -> str:
    """Return a row's name for use in a sentence: `grounding type:deal_data` becomes "grounding, type deal_data"."""
    use, _, its_scope = name.partition(" ")
    kind, colon, of = its_scope.partition(":")
    told = f"{kind} {of}" if colon else "all handoffs"
    return f"{use}, {cut(told, LONGEST_NAME)}"


def lines(changes: Iterable[Change]) -> list[Line]:
    return [line for change in changes for line in _lines(change)]


def _lines(change: Change) -> Iterator[Line]:
    name = row_name(change.row)
    if change.field == WHOLE_ROW:
        yield Line(name, "prompt", _text(change.old), _text(change.new))
    elif isinstance(change.old, str) and isinstance(change.new, str):
        yield from _of_text(name, change.old, change.new)
    else:
        yield Line(name, format_path(change.field), format_optional(change.old), format_optional(change.new))


def _of_text(name: str, old: str, new: str) -> Iterator[Line]:
    """Yield the differences line by line, because a long text would hide them."""
    before, after = old.split("\n"), new.split("\n")
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for what, start, end, begin, until in matcher.get_opcodes():
        if what == "equal":
            continue
        first, last = (start, end) if end > start else (begin, until)
        where = f"line {first + 1}" if last - first == 1 else f"lines {first + 1} to {last}"
        yield Line(name, where, _part(before[start:end]), _part(after[begin:until]))


def _part(some: list[str]) -> str | None:
    return cut("\n".join(some), LONGEST_CHANGE) or "an empty line" if some else None


def _text(plain: Any) -> str | None:
    return cut(str(plain["text"]), LONGEST_TEXT) if isinstance(plain, Mapping) else format_optional(plain)
