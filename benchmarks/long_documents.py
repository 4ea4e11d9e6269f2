"""Submissions of any length from the texts of the bundled samples; no two sentences of a document are equal."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

from benchmarks import documents


@cache
def _sentences() -> list[str]:
    texts = [str(json.loads(line)["document"]["data"].get("text", "")) for line in documents.submissions()]
    return [part.strip() for text in texts for part in text.split("\n") if 40 <= len(part.strip()) <= 300]


def _prose(first: int) -> Iterator[str]:
    """Yield sentences from index `first` on; after the last sentence they start again, with other numbers."""
    known = _sentences()
    for number in count(first):
        again, place = divmod(number, len(known))
        yield f"{known[place]} ({again * 17 + place})"


def text_of(size: int, first: int = 0) -> str:
    parts: list[str] = []
    length = 0
    for sentence in _prose(first):
        parts.append(sentence)
        length += len(sentence) + 1
        if length >= size:
            return "\n".join(parts)[:size]
    raise AssertionError("there is always another sentence")


def _submission(data: dict[str, object], context: dict[str, object]) -> bytes:
    document = {
        "handoff_id": "long",
        "source_agent_id": "researcher",
        "target_agent_id": "writer",
        "tenant_id": "default",
        "call_chain": ["researcher"],
        "handoff_type": "research_result",
        "data": data,
    }
    return json.dumps({"format": "payload", "document": document, "context": context}).encode()


def grounded(*, text_size: int, context_size: int, number: int = 0) -> bytes:
    """Return a submission whose text repeats its context in one half, and says other things in the other half."""
    context = text_of(context_size, number * 50)
    half = context[: text_size // 2]
    return _submission({"text": half + text_of(text_size - len(half), number * 50 + 500)}, {"page": context})


def one_text(size: int, first: int) -> bytes:
    return _submission({"text": text_of(size * 2 // 3, first)}, {"page": text_of(size // 3, first + 40)})


def many_fields(size: int, first: int) -> bytes:
    names = (f"field_{number}" for number in count())
    known = iter(text_of(size * 2 // 3, first).split("\n"))
    return _submission(dict(zip(names, known, strict=False)), {"page": text_of(size // 3, first + 40)})


def many_numbers(size: int, first: int) -> bytes:
    values: dict[str, object] = {f"n{number}": (first + number) * 1.5 for number in range(size // 18)}
    return _submission(values, {"page": text_of(1000, first)})


SHAPES: dict[str, Callable[[int, int], bytes]] = {
    "one long text": one_text,
    "many fields": many_fields,
    "many numbers": many_numbers,
}


def of_size(make: Callable[[int, int], bytes], size: int) -> list[bytes]:
    """Return documents of one size that have about 256 KiB together, or one longer document.

    Documents of all sizes then consist of the same sentences. A single short document would have only the first
    sentences, which contain few values.
    """
    number = max(1, 256 * 1024 // size)
    return [make(size, place * len(_sentences()) // number) for place in range(number)]
