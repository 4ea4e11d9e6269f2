"""Items of labelled data, and the kinds of lines that hold items. An item is a document to judge, with its label."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import orjson

from handoffaudit.validation.claims import Source
from handoffaudit.validation.json_text import MAX_DEPTH, deeper_than
from handoffaudit.validation.paths import Location
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.text import type_name

_Kind = TypeVar("_Kind")
Line: TypeAlias = dict[str, Any]
Span: TypeAlias = tuple[int, int]
# A function that reads a file in the folder of the data. It returns None if the file does not exist.
Beside: TypeAlias = Callable[[str], str | None]


class UnreadableError(Exception):
    """A line that is not labelled data, or that does not have the structure of its kind."""


@dataclass(frozen=True, slots=True)
class Label:
    """The label that people gave a handoff. No layer ever sees the label.

    `faulty` is None if the label is unknown. `spans` are the faulty characters of the text at `place` in the data, as
    half-open ranges, or None if people labelled the text as a whole.
    """

    faulty: bool | None
    spans: tuple[Span, ...] | None = None
    place: Location = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One handoff of labelled data.

    `name` identifies the item for people. `files` holds the sender's files, or None if the files are unknown.
    `trace_evidence` holds the earlier results of tools in the trace of the handoff.
    """

    name: str
    document: dict[str, Any]
    label: Label
    format: str = "payload"
    envelope: Envelope = field(default_factory=Envelope)
    files: frozenset[str] | None = None
    trace_evidence: tuple[Source, ...] = ()


def payload(
    source: str, target: str, handoff_type: str, data: dict[str, Any], chain: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a document in the `payload` format."""
    return {
        "source_agent_id": source,
        "target_agent_id": target,
        "tenant_id": "default",
        "call_chain": list(chain or (source,)),
        "handoff_type": handoff_type,
        "data": data,
    }


_DECISIONS = {"declined": True, "approved": False}


def is_review(line: Line) -> bool:
    return "review" in line and "document" in line


def review_items(line: Line, beside: Beside) -> Iterable[Item]:
    """Yield the handoff of a line with a human decision: a submission with its `review` beside the document.

    `{…submission…, "review": {"decision": "approved" | "declined", "codes": […]}}`. A declined handoff is faulty and an
    approved handoff is sound, whatever the layers found. The optional `codes` are the rule codes that the reviewer saw.
    """
    decision = line["review"]["decision"]
    if decision not in _DECISIONS:
        raise ValueError(f"review.decision is {decision!r}, not one of {', '.join(_DECISIONS)}")
    document = line["document"]
    if not isinstance(document, dict):
        raise TypeError("document is not an object")
    name = line.get("handoff_id") or document.get("handoff_id") or ""
    yield Item(
        name=str(name),
        document=document,
        label=Label(_DECISIONS[decision]),
        format=_field(line, "format", str) or "",
        envelope=Envelope(
            context=_field(line, "context", dict),
            evidence=_field(line, "evidence", list),
            trace_id=_field(line, "trace_id", str),
            parent_handoff_id=_field(line, "parent_handoff_id", str),
            step=_field(line, "step", int),
            agent=_field(line, "agent", str),
        ),
    )


def _field(line: Line, name: str, kind: type[_Kind]) -> _Kind | None:
    """Return a field of a submission, or None if absent or null. Raises `TypeError` for another kind of value."""
    value = line.get(name)
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name} is {type_name(value)}")
    return value


PLACE = ("response",)

# `ast` needs about a hundred times the memory of its input.
LONGEST_LITERAL = 1024 * 1024


def is_grounding(line: Line) -> bool:
    return {"context", "response", "hallucinated"} <= line.keys()


def grounding_items(line: Line, beside: Beside) -> Iterable[Item]:
    """Yield a text that an LLM wrote from a source, with a label for grounded or ungrounded.

    Some texts come with their ungrounded spans.
    """
    response = line["response"]
    if not isinstance(response, str):
        raise TypeError("response is not a text")
    yield Item(
        name=str(line.get("id", "")),
        document=payload(str(line.get("model") or "model"), "reader", "generated_text", {"response": response}),
        label=Label(
            faulty=bool(line["hallucinated"]),
            spans=_spans(line.get("spans"), len(response)),
            place=PLACE,
        ),
        envelope=Envelope(context=_context(line)),
    )


def _spans(listed: list[dict[str, Any]] | None, length: int) -> tuple[Span, ...] | None:
    if listed is None:
        return None
    spans = tuple((int(span["start"]), int(span["end"])) for span in listed)
    for start, end in spans:
        if not 0 <= start <= end <= length:
            raise ValueError(f"spans has {start} to {end}, and response has {length:,} characters")
    return spans


def _context(line: Line) -> dict[str, Any]:
    context = line["context"]
    if isinstance(context, dict):
        return context
    if not isinstance(context, str):
        raise TypeError("context is neither a text nor an object")
    if line.get("context_format") == "python-literal":
        return _parse_literal(context)
    return {"text": context}


def _parse_literal(literal: str) -> dict[str, Any]:
    if len(literal) > LONGEST_LITERAL:
        raise ValueError(f"context is a literal of {len(literal):,} characters; the limit is {LONGEST_LITERAL:,}")
    try:
        value = ast.literal_eval(literal)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("context is not a Python literal") from error
    if deeper_than(value, MAX_DEPTH):
        raise ValueError(f"context is nested more than {MAX_DEPTH} levels deep")
    return value if isinstance(value, dict) else {"value": value}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of labelled data.

    `recognise` tells whether a line is of this kind. `items` returns the items of a line, and raises `ValueError`,
    `KeyError`, `TypeError`, `AttributeError` or `IndexError` for a broken line.
    """

    name: str
    recognise: Callable[[Line], bool]
    items: Callable[[Line, Beside], Iterable[Item]]


_BROKEN = (ValueError, KeyError, TypeError, AttributeError, IndexError)


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of labelled data that a command reads. A new kind needs two functions and one line in a table.

    `hint` is a sentence for users whose data has an unknown kind.
    """

    table: tuple[Kind, ...]
    hint: str = ""

    def recognise(self, line: Line) -> Kind | None:
        return next((kind for kind in self.table if kind.recognise(line)), None)

    def read(self, text: bytes, beside: Beside) -> tuple[str, list[Item]]:
        """Return the kind of a line and all its items.

        Raises `UnreadableError` if the line is not JSON, has no known kind, or has an item that cannot be used.
        """
        try:
            line = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise UnreadableError(f"is not JSON: {error.msg}") from error
        kind = self.recognise(line) if isinstance(line, dict) else None
        if kind is None:
            raise UnreadableError("is not labelled data of a known kind")
        try:
            return kind.name, list(kind.items(line, beside))
        except _BROKEN as error:
            why = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
            raise UnreadableError(f"cannot be used: {why}") from error


KINDS = Kinds(
    (Kind("reviews", is_review, review_items), Kind("grounding", is_grounding, grounding_items)),
    hint="`python -m evals` in a checkout of the source code reads public corpora.",
)
