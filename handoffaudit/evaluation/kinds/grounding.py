"""Texts that an LLM wrote from a source, labelled as grounded or not, some with the ungrounded spans."""

import ast
from collections.abc import Iterable
from typing import Any, Final

from handoffaudit.evaluation.items import Beside, Item, Label, Line, payload
from handoffaudit.validation.json_input import MAX_DEPTH, deeper_than
from handoffaudit.validation.record import Envelope

NAME: Final = "grounding"
PLACE = ("response",)
# `ast` needs about a hundred times the memory of its input.
LONGEST_LITERAL = 1024 * 1024


def recognise(line: Line) -> bool:
    return {"context", "response", "hallucinated"} <= line.keys()


def items(line: Line, beside: Beside) -> Iterable[Item]:
    response = line["response"]
    if not isinstance(response, str):
        raise TypeError("response is not a text")
    spans = line.get("spans")
    yield Item(
        name=str(line.get("id", "")),
        document=payload(str(line.get("model") or "model"), "reader", "generated_text", {"response": response}),
        label=Label(
            faulty=bool(line["hallucinated"]),
            spans=None if spans is None else tuple((int(span["start"]), int(span["end"])) for span in spans),
            place=PLACE,
        ),
        envelope=Envelope(context=_context(line)),
    )


def _context(line: Line) -> dict[str, Any]:
    context = line["context"]
    if isinstance(context, dict):
        return context
    if not isinstance(context, str):
        raise TypeError("context is neither a text nor an object")
    if line.get("context_format") == "python-literal":
        return _structured(context)
    return {"text": context}


def _structured(literal: str) -> dict[str, Any]:
    if len(literal) > LONGEST_LITERAL:
        raise ValueError(f"context is a literal of {len(literal):,} characters; {LONGEST_LITERAL:,} are the most")
    try:
        value = ast.literal_eval(literal)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("context is not a Python literal") from error
    if deeper_than(value, MAX_DEPTH):
        raise ValueError(f"context is nested more than {MAX_DEPTH} levels deep")
    return value if isinstance(value, dict) else {"value": value}
