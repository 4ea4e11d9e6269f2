"""Prompts of a tenant that replace shipped prompts: for one handoff type, for one workflow, or for all handoffs."""

import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import PlainValidator

from handoffaudit.policy import values
from handoffaudit.policy.values import InvalidPolicy, PolicyError, Wrong, brief
from handoffaudit.validation.config import ANY_OTHER_TYPE, Prompts, describe
from handoffaudit.validation.prompts.question import LONGEST_PROMPT, Prompt, Use
from handoffaudit.validation.text import clean, trim

MOST_ROWS = 200

ALL = "all"

STAR = "*"

DRAFT = "draft"

# Calls to the LLM are recorded with the prompt's name, in a column of 200 characters.
LONGEST_SCOPE = 140

# The Unicode categories of characters that a reader does not see, except line feeds and tabs.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_LINE_SIGNS = "\n\t"


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A prompt for a handoff type, for a workflow or, if neither is named, for all handoffs.

    One `*` in the name of a workflow matches any text.
    """

    use: Use = field(metadata=describe("Use", "What the LLM is asked for."))
    handoff_type: str | None = field(
        default=None, kw_only=True, metadata=describe("Handoff type", "The type that the prompt is for, or null.")
    )
    workflow: str | None = field(
        default=None,
        kw_only=True,
        metadata=describe("Workflow", "The workflow that the prompt is for, or null; one * matches any text."),
    )
    text: str = field(metadata=describe("Prompt", f"Plain text, at most {LONGEST_PROMPT:,} characters."))

    @property
    def scope(self) -> str:
        if self.workflow is not None:
            return f"workflow:{self.workflow}"
        return ALL if self.handoff_type is None else f"type:{self.handoff_type}"

    @property
    def name(self) -> str:
        """Return a name that no other row has: there is one row for each use and scope."""
        return f"{self.use.value} {self.scope}"

    def to_prompt(self, version: str) -> Prompt:
        """Return the prompt under its name in verdicts, such as `grounding prompts-3 type:research_result`."""
        return Prompt(f"{self.use.value} prompts-{version} {clean(self.scope, LONGEST_SCOPE)}", self.text)


def parse_row(given: Mapping[str, Any]) -> PromptRow:
    """Parse a row. Raise `InvalidPolicy` with every invalid value."""
    row = _name_row(given)
    found = PromptRow(**values.read_row(PromptModel, row, given))
    if found.handoff_type is not None and found.workflow is not None:
        message = "A prompt is for a handoff type or for a workflow."
        raise InvalidPolicy([PolicyError(row, "workflow", given["workflow"], message, "Leave one of them out.")])
    return found


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[PromptRow, ...]:
    """Parse all rows, given as `values.to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, parse_row))


def check_rows(rows: Iterable[PromptRow]) -> tuple[PromptRow, ...]:
    """Return the rows, sorted by use and scope.

    Raise `InvalidPolicy` for repeated rows, too many rows, or too much data.
    """
    table = sorted(rows, key=lambda row: (list(Use).index(row.use), row.scope != ALL, row.scope))
    return values.check_table(table, "use and scope", MOST_ROWS, attrgetter("name"))


def current_prompts(rows: Iterable[PromptRow], version: str) -> Prompts:
    """Return the prompts by which handoffs are judged; the name of each contains `version`."""
    return _arrange((row, row.to_prompt(version)) for row in rows)


def draft_prompts(rows: Iterable[PromptRow], current: Prompts, version: str) -> Prompts:
    """Return the prompts of a draft; `current` holds the prompts in force, and `version` is their version.

    A prompt that the draft leaves unchanged keeps its name. A dry run can thus skip handoffs with unchanged prompts.
    """
    kept = {*current.for_all.values(), *(prompt for prompts in current.by_type.values() for prompt in prompts.values())}
    kept |= {prompt for _, _, prompt in current.by_workflow}
    named = ((row, row.to_prompt(version)) for row in rows)
    return _arrange((row, prompt if prompt in kept else row.to_prompt(DRAFT)) for row, prompt in named)


def _arrange(named: Iterable[tuple[PromptRow, Prompt]]) -> Prompts:
    for_all: dict[Use, Prompt] = {}
    by_type: dict[str, dict[Use, Prompt]] = {}
    by_workflow: list[tuple[str, Use, Prompt]] = []
    for row, prompt in named:
        if row.workflow is not None:
            by_workflow.append((row.workflow, row.use, prompt))
        elif row.handoff_type is not None:
            by_type.setdefault(row.handoff_type, {})[row.use] = prompt
        else:
            for_all[row.use] = prompt
    # Prompts of higher precedence come last: a longer name with a star after a shorter one, and a name without a star
    # after both.
    by_workflow.sort(key=lambda one: (STAR not in one[0], len(one[0]), one[0]))
    return Prompts(
        MappingProxyType(for_all),
        MappingProxyType({name: MappingProxyType(prompts) for name, prompts in by_type.items()}),
        tuple(by_workflow),
    )


def _name_row(given: Mapping[str, Any]) -> str:
    """Return the name of a possibly invalid row for errors."""
    scopes = [(kind, given.get(field)) for kind, field in (("type", "handoff_type"), ("workflow", "workflow"))]
    scope_names = [f"{kind}:{values.row_name(value)}" for kind, value in scopes if value is not None]
    return f"{values.row_name(given.get('use'))} {' '.join(scope_names) or ALL}"


def _parse_type(value: Any) -> str | None:
    if value == ANY_OTHER_TYPE:
        raise Wrong(
            "A prompt is for one type, for one workflow, or for all handoffs.",
            "Leave the type out of a prompt for all handoffs.",
        )
    return None if value is None else values.handoff_type(value)


def _parse_workflow(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise Wrong(f"{brief(value)} is not a workflow id.", "Write the id as senders do, or leave the workflow out.")
    if len(value) > values.LONGEST_NAME:
        raise Wrong(f"The name has {len(value)} characters.", f"Use at most {values.LONGEST_NAME}.")
    if value != value.strip() or not value.isprintable():
        raise Wrong(f"{brief(value)} begins or ends with a space, or has invisible characters.", "Remove them.")
    if value.count(STAR) > 1:
        raise Wrong(f"{brief(value)} has more than one {STAR}.", f"Use one {STAR}, which matches any text.")
    return value


def _parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("A prompt needs a text.", "Write the text, or remove the row to use the shipped prompt.")
    if len(value) > LONGEST_PROMPT:
        raise Wrong(f"The text has {len(value):,} characters.", f"Use at most {LONGEST_PROMPT:,}.")
    text = trim(value)
    for number, line in enumerate(text.split("\n"), 1):
        unseen = next(
            (sign for sign in line if unicodedata.category(sign) in _INVISIBLE and sign not in _LINE_SIGNS), None
        )
        if unseen is not None:
            raise Wrong(f"Line {number} has an invisible character (U+{ord(unseen):04X}).", "Remove the character.")
    return text


PromptModel = values.model_of(
    "PromptModel",
    PromptRow,
    handoff_type=Annotated[str | None, PlainValidator(_parse_type, json_schema_input_type=str | None)],
    workflow=Annotated[str | None, PlainValidator(_parse_workflow, json_schema_input_type=str | None)],
    text=Annotated[str, PlainValidator(_parse_text, json_schema_input_type=str)],
)
