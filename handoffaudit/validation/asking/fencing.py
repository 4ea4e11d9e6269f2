"""What agents wrote, as it goes to a model: without secrets, of a bounded size, between tags that it cannot close."""

import re
from typing import Any

from handoffaudit.validation.asking.masking import masked
from handoffaudit.validation.canonical import python_compact

LONGEST_PART = 10_000
TRUNCATED = "[truncated]"

# what opens a tag, or looks as if it did; and what a reader does not see: text turned around, characters of no width;
# and the words at which Claude declines to answer, so that software can be tried: an agent could pass by writing them
_ESCAPED = re.compile(
    "(?<=ANTHROPIC)_(?=MAGIC_STRING)|[<\uff1c\ufe64\u2039\u2329\u27e8\u3008\u276e\u02c2\u1438\u276c\u29fc"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def as_text(value: Any, limit: int = LONGEST_PART) -> str:
    """A JSON value as compact JSON of at most `limit` characters, without secrets; a cut is marked."""
    return cut(python_compact(masked(value)).decode("utf-8", "replace"), limit)


def cut(text: str, limit: int = LONGEST_PART) -> str:
    """At most `limit` characters of `text`; a cut is marked."""
    return text if len(text) <= limit else text[: limit - len(TRUNCATED)] + TRUNCATED


def is_cut(content: str) -> bool:
    """Whether of something between tags only a part is there. No text can say so itself: JSON ends with another
    character."""
    return f"{TRUNCATED}\n</" in content


def fenced(tag: str, text: str) -> str:
    """`text` between tags. No text can close them: its own `<` is written as JSON's escape for it, and so is what only
    looks like one, what hides from a reader, and what would keep the model from answering."""
    return f"<{tag}>\n{_ESCAPED.sub(_escape, text)}\n</{tag}>"


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
