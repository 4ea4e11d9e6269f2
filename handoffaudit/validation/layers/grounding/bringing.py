"""Who brings facts of their own: what a person or a tool says need not stand in what was known before."""

import re
from functools import lru_cache
from typing import Final

import orjson

from handoffaudit.validation.canonical import compact
from handoffaudit.validation.claims import Claim
from handoffaudit.validation.record import Record

PEOPLE: Final = frozenset({"client", "customer", "enduser", "human", "humanuser", "person", "user", "userproxy"})
PROGRAMS: Final = frozenset(
    {"codeexecutor", "codeinterpreter", "computerterminal", "executor", "interpreter", "shell", "terminal", "tool"}
)
# kinds of problem of `universal` that ask for something new
ORDERS: Final = frozenset({"creative", "implementation"})
_ANYTHING: Final = frozenset({("content",), ("message",), ("output",), ("text",)})
_HOW_SURE: Final = ("confidence",)
_SEPARATORS = str.maketrans("", "", "-_. ")


def brings_facts(record: Record) -> str | None:
    """Why nothing of the handoff is held against its sources; None where its source speaks of them.

    A tool is known by its name, or by the call of it that stands in the context: `{"name": "get_order", …}`.
    """
    name = record.source_agent_id.lower().translate(_SEPARATORS)
    if name in PEOPLE:
        return "a person's words bring facts of their own"
    if name in PROGRAMS or record.data.get("role") == "tool" or _was_called(record):
        return "a tool's answer brings facts of its own"
    if _is_order(record):
        return "an order says what is to be made: it rests on nothing unless a prompt or evidence comes with it"
    return None


def _is_order(record: Record) -> bool:
    asked = record.evidence or record.context.get("original_prompt")
    return record.format == "universal" and record.handoff_type in ORDERS and not asked


def states_nothing(claim: Claim) -> bool:
    """Whether a claim's text is what a program put out, and no statement: JSON, or a single word in a field that could
    hold anything; or how sure its sender is, which no source can say."""
    text = claim.text.strip()
    if claim.location[-1:] == _HOW_SURE:
        return len(text.split(maxsplit=1)) < 2
    if text[:1] in ("{", "["):
        return _is_json(text)
    return claim.location[-1:] in _ANYTHING and len(text.split(maxsplit=1)) < 2


def puts_out(record: Record) -> bool:
    """Whether all texts of its data are JSON, which a program writes and no agent claims."""
    texts = [text for value in record.data.values() if isinstance(value, str) and (text := value.strip())]
    return bool(texts) and all(text[0] in "{[" and _is_json(text) for text in texts)


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _was_called(record: Record) -> bool:
    source = record.source_agent_id
    if not source:
        return False
    context = compact(record.context)
    # Most names are nowhere in the context, which is seen sooner than that they were not called.
    return source.encode("utf-8", "surrogatepass") in context and bool(_call_of(source).search(context))


@lru_cache(maxsize=1024)
def _call_of(name: str) -> "re.Pattern[bytes]":
    """A call as models write it, also inside a text, where its quotation marks are escaped."""
    escaped = re.escape(name.encode("utf-8", "surrogatepass"))
    return re.compile(
        # no backslash before the first mark: a pattern that begins with plain text is found many times faster
        rb'"name\\{0,3}": ?\\{0,3}"' + escaped + rb'\\{0,3}", ?\\{0,3}"(?:arguments|input|parameters|args)\\{0,3}"'
    )
