"""The conversion of a sender's values to texts that people can read and a database can store."""

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from heapq import nsmallest
from operator import itemgetter
from typing import Any, Literal, NamedTuple

MAX_TEXT = 200
# The reason of a handoff is cut to this many characters.
MAX_REASON = 2000
_SHOWN = 60
_SHOWN_PATH = 160
_PATH_START = 40
_COMPARED = 64
_DEEPEST = 4
_MOST_ENTRIES = 60
_CLOSE_ENOUGH = 0.5
_ALIKE = 0.8
_MOST_LOOKED_AT = 200
_SHOWN_ENDS = 4
_PLACEHOLDER = "\ufffd"
# A number of bits. Longer integers are described in words, because str() refuses integers of thousands of digits.
_LONGEST_INTEGER = 190
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
_WORDS = {None: "null", True: "true", False: "false"}
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


# Invisible letters and signs: the blank Braille sign, and the default-ignorable characters of Unicode that are not
# format characters.
_INVISIBLE_SIGN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)


# Format characters and invisible signs, which can split a value and cannot be seen. Only one of these characters also
# occurs in ordinary texts: U+FE0F, after signs such as ©.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
# Full-width signs, and digits of any script except ASCII.
_DISGUISED = re.compile(r"[\uff01-\uff5e]|(?![0-9])\d")
_FULL_WIDTH = 0xFEE0
# Blanks at which no line breaks, and blanks of other widths, as in PDF files and Japanese texts.
_SPACES = "\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000"
# Texts of Latin letters and usual punctuation have none of these characters. So one search for these characters usually
# saves the searches for `_DISGUISED` and `_HIDDEN`.
_SUSPECT = re.compile("[\u00ad\u034f\u0600-\u1fff\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2c00-\U0010ffff]")
# An escaped character, such as `\u00fc`, in JSON that is part of a text. JSON inside JSON has more than one backslash.
_ESCAPE = re.compile(r"(?<!\\)\\+u([0-9a-fA-F]{4})")
# Signs in a row of which more than any script needs may be combining marks.
_LONG_RUN = re.compile("(?:[^\\w\\s!-~]|[\uff9e\uff9f]){33,}")
_LONGEST_RUN = 32
# A letter and its accents, or the parts of a Korean syllable.
_DECOMPOSED = re.compile(
    "[^\\W\\d_][\u0300-\u036f\u0653-\u0655\u3099\u309a]{1,4}|[\u1100-\u1112][\u1161-\u1175][\u11a8-\u11c2]?"
)
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")

_ASCII = bytes(range(128))


class PlainText(NamedTuple):
    """A text without hidden characters, escaped letters and decomposed letters.

    `replaced` has an entry for each replaced part of the original text, in order: the offset in `text` at which
    the replacement ends, and the start and the end of the part in the original text. If `before` is not None,
    `before.text` takes the place of the original text.
    """

    text: str
    replaced: Sequence[tuple[int, int, int]] = ()
    before: "PlainText | None" = None

    @classmethod
    def of(cls, text: str) -> "PlainText":
        """Return the text as a reader sees it: without hidden characters, and with ASCII blanks, signs and digits.

        An escaped letter or accent, such as `\\u00fc` in JSON inside the text, becomes that character. A letter and the
        accents after it become one character, if Unicode has this character.
        """
        if text.isascii() and "\\u" not in text:
            return cls(text)
        for space in _SPACES:
            text = text.replace(space, " ")
        is_suspect = not text.isascii() and _is_suspect(text)
        if is_suspect:
            text = _DISGUISED.sub(_undisguise, text)
        parts = [(*match.span(), "") for match in _HIDDEN.finditer(text)] if is_suspect else []
        if "\\u" in text:
            escapes = ((*match.span(), chr(int(match[1], 16))) for match in _ESCAPE.finditer(text))
            parts = sorted([*parts, *(escape for escape in escapes if _is_letter(escape[2]))])
        plain = cls._replace_parts(text, parts) if parts else cls(text)
        if unicodedata.is_normalized("NFC", plain.text):
            return plain
        composed = ((*match.span(), normalize("NFC", match[0])) for match in _DECOMPOSED.finditer(plain.text))
        parts = [part for part in composed if len(part[2]) == 1]
        return cls._replace_parts(plain.text, parts, plain) if parts else plain

    @classmethod
    def _replace_parts(
        cls, text: str, parts: Iterable[tuple[int, int, str]], before: "PlainText | None" = None
    ) -> "PlainText":
        """Replace parts, each given by its start, its end and its replacement of at most one character."""
        plain: list[str] = []
        replaced: list[tuple[int, int, int]] = []
        size = at = 0
        for start, end, char in parts:
            plain += text[at:start], char
            size += start - at + len(char)
            replaced.append((size, start, end))
            at = end
        return cls("".join(plain) + text[at:], replaced, before)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text that became the span from `start` to `end` in the plain text."""
        if self.replaced and start < end:
            start, end = self._span_of(start)[0], self._span_of(end - 1)[1]
        return self.before.span(start, end) if self.before else (start, end)

    def _span_of(self, at: int) -> tuple[int, int]:
        """Return the span of the original text that became the character at `at`."""
        following = bisect_right(self.replaced, at, key=itemgetter(0))
        plain, _, original = self.replaced[following - 1] if following else (0, 0, 0)
        start = original + at - plain
        if following < len(self.replaced) and self.replaced[following][1] == start:
            return start, self.replaced[following][2]
        return start, start + 1


def _is_letter(char: str) -> bool:
    """Return whether the character is a letter, or a combining accent of a letter."""
    return char.isalpha() or unicodedata.combining(char) > 0


def _is_suspect(text: str) -> bool:
    # Remove the ASCII characters before the search. For each character, the search takes several times as long as the
    # removal, and few characters of a text are not ASCII.
    rest = text.encode("utf-8", "surrogatepass").translate(None, _ASCII)
    return _SUSPECT.search(rest.decode("utf-8", "replace")) is not None


def _undisguise(match: re.Match[str]) -> str:
    char = match.group()
    return str(unicodedata.decimal(char)) if char.isdecimal() else chr(ord(char) - _FULL_WIDTH)


def is_blank(text: str) -> bool:
    """Return whether the text has only invisible characters, such as blanks, control and format characters."""
    return not any(unicodedata.category(char) not in _INVISIBLE and not _INVISIBLE_SIGN.match(char) for char in text)


def storable(text: str) -> bool:
    """Return whether PostgreSQL accepts the text: no NUL character and no lone surrogate."""
    return text.isprintable() or not _UNSTORABLE.search(text)


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Return `text` with at most `limit` characters, fit to be stored.

    `…` marks the cut. Characters that cannot be stored are replaced.
    """
    # Return early, because nearly all texts are short and printable.
    if len(text) <= limit and text.isprintable():
        return text
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if storable(text):
        return text
    return text.replace("\0", _PLACEHOLDER).encode("utf-8", "replace").decode()


def lower_in_place(text: str) -> str:
    """Return `text` in lower case, with every character at its place."""
    # Only the letter \u0130 becomes longer in lower case.
    return text.lower() if text.isascii() or "\u0130" not in text else text.replace("\u0130", "i").lower()


def normalize(form: Literal["NFC", "NFKC", "NFKD"], text: str) -> str:
    """Return the text in a normal form of Unicode. Only the first of many signs in a row count.

    Python sorts combining marks in a row, in a time that grows with the square of their number.
    """
    if len(text) > _LONGEST_RUN:
        text = _LONG_RUN.sub(lambda run: run[0][:_LONGEST_RUN], text)
    return unicodedata.normalize(form, text)


def trim(text: str) -> str:
    """Return the text of a form without white space at its ends.

    Forms send CR LF for each line break. LF is stored instead, so that a line break is one character.
    """
    return text.replace("\r\n", "\n").strip()


def clean_or_empty(value: object, limit: int = MAX_TEXT) -> str:
    """Return the cleaned text of a field, or an empty text if the field holds anything but a text."""
    if not isinstance(value, str):
        return ""
    # Repeat the first check of `clean`: each document has about ten names and ids, and most of them need no call.
    return value if len(value) <= limit and value.isprintable() else clean(value, limit)


def reason_text(value: object) -> str:
    """Return the reason of a handoff, cleaned and cut; an empty text if the field holds anything but a visible text."""
    is_visible = isinstance(value, str) and not is_blank(value[:MAX_REASON])
    return clean_or_empty(value, MAX_REASON) if is_visible else ""


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID of 8-4-4-4-12 hexadecimal digits, in either case (RFC 9562)."""
    return _UUID.fullmatch(text) is not None


_UUID_LENGTH = 36


def trace_name(trace_id: str) -> str:
    """Return the name that a trace is stored under: a UUID in lower case, any other id as it was sent."""
    return trace_id.lower() if len(trace_id) == _UUID_LENGTH and is_uuid(trace_id) else trace_id


def show(value: object) -> str:
    """Return a JSON value in the form for messages: short, and with quotation marks around a text."""
    match value:
        case str():
            return f'"{_one_line(clean(value, _SHOWN))}"'
        case None | bool():
            return _WORDS[value]
        case dict():
            return f"an object of {pluralize(len(value), 'field')}"
        case list() | tuple():
            return f"a list of {pluralize(len(value), 'entry', 'entries')}"
        case int() if value.bit_length() > _LONGEST_INTEGER:
            return f"an integer of {value.bit_length():,} bits"
        case _:
            return clean(f"{value:.15g}" if isinstance(value, float) else str(value), _SHOWN)


def show_path(path: str) -> str:
    """Return a path in quotation marks for messages. A path of more than 160 characters loses its middle.

    Long paths usually differ at their ends, which `show` would cut.
    """
    if len(path) > _SHOWN_PATH:
        path = f"{path[:_PATH_START]}…{path[_PATH_START + 1 - _SHOWN_PATH :]}"
    return f'"{_one_line(clean(path, _SHOWN_PATH))}"'


def _one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ").replace("\t", " ")


def quote_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return the whole text as a JSON string for copying, or an empty text if the string is longer than `limit`."""
    written = json.dumps(text, ensure_ascii=not storable(text)) if len(text) < limit else ""
    return written if len(written) <= limit else ""


def type_name(value: object) -> str:
    """Return the JSON type of a value, with its article."""
    match value:
        case str():
            return "a string"
        case None:
            return "null"
        case bool():
            return "a boolean"
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return "a number"


def brief(value: Any, depth: int = 0) -> Any:
    """Return `value` as a small, storable JSON value. Long texts and lists are cut.

    Large objects and deep values are described in words, and integers of 64 bits or more become texts.
    """
    match value:
        case str():
            return clean(value)
        case int():
            return show(value) if value.bit_length() >= 64 else value
        case dict() if depth < _DEEPEST and len(value) <= _MOST_ENTRIES:
            return {clean(str(key)): brief(item, depth + 1) for key, item in value.items()}
        case list() | tuple() if depth < _DEEPEST:
            items = [brief(item, depth + 1) for item in value[:_MOST_ENTRIES]]
            return items if len(value) <= _MOST_ENTRIES else [*items, f"… and {len(value) - _MOST_ENTRIES} more"]
        case dict() | list() | tuple():
            return show(value)
        case _:
            return value


def closest(word: object, choices: Iterable[str]) -> str | None:
    """Return the choice most similar to `word`, or None if no choice is similar."""
    return next(iter(nearest(word, choices, 1)), None)


def nearest(word: object, choices: Iterable[str], most: int) -> list[str]:
    """Return at most `most` choices that are similar to `word`, the most similar first."""
    if not isinstance(word, str) or not word:
        return []
    by_folded = {choice.lower(): choice for choice in choices}
    # A hostile word may be megabytes long.
    found = get_close_matches(word[:_COMPARED].lower(), by_folded, n=most, cutoff=_CLOSE_ENOUGH)
    return [by_folded[folded] for folded in found]


def misspelt_field(field: str, names: Iterable[str]) -> str | None:
    """Return the name in `names` that is probably a misspelt `field`, or None.

    A longer name that begins with the name of the field, such as `user_approved_by`, is another field.
    """
    wanted = _plain(field)
    others = (name for name in names if name != field and len(name) < 2 * len(field))
    # Only the first names in sort order are compared, so that the result does not depend on the key order.
    plain = {_plain(name): name for name in nsmallest(_MOST_LOOKED_AT, others)}
    near = _most_alike(wanted, tuple(name for name in plain if name == wanted or not name.startswith(wanted)))
    return plain[near] if near else None


# Cached, because the documents of a sender have the same fields.
@lru_cache(maxsize=512)
def _most_alike(wanted: str, names: tuple[str, ...]) -> str:
    return next(iter(get_close_matches(wanted, names, n=1, cutoff=_ALIKE)), "")


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def unknown_field_hint(
    name: str, known: Iterable[str], taken: Container[str], otherwise: str
) -> tuple[str, str | None]:
    """Return the hint for an unknown field, and the name to rename the field to, or None for no renaming.

    `taken` holds the fields that exist already. A field whose correct name is in `taken` must be removed. `otherwise`
    is the hint if no known name is similar.
    """
    near = closest(name, known)
    if near is None:
        return otherwise, None
    if near in taken:
        return f'Remove it: "{near}" is already there.', None
    return f'Rename it to "{near}".', near


def sentences(parts: Iterable[str]) -> str:
    """Join texts as sentences. Add a full stop to texts without a final punctuation mark, and skip empty texts."""
    return " ".join(_end_sentence(part) for part in map(str.strip, parts) if part)


def _end_sentence(part: str) -> str:
    return part if part.rstrip("\"')]”»").endswith((".", "!", "?", "…", ":")) else f"{part}."


def pluralize(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: `1 agent`, `2,000 agents`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def either(choices: Iterable[str]) -> str:
    """Return the choices as `a, b or c`."""
    *head, last = choices
    return f"{', '.join(head)} or {last}" if head else last


def ordinal(number: int) -> str:
    """Return `third`, `fourth` or `fifth`. Write other numbers with digits, such as `21st`."""
    words = {3: "third", 4: "fourth", 5: "fifth"}
    suffix = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return words.get(number, f"{number}{suffix}")


def format_chain(chain: tuple[str, ...], mark: str | None = None) -> str:
    """Return a chain as text, such as `planner → [writer] → critic`.

    The marked agent is in brackets, and the middle of a long chain is left out.
    """
    names = [f"[{name}]" if name == mark else name for name in chain]
    if len(names) > 2 * _SHOWN_ENDS + 1:
        left_out = len(names) - 2 * _SHOWN_ENDS
        names = [*names[:_SHOWN_ENDS], f"… {left_out} more …", *names[-_SHOWN_ENDS:]]
    return " → ".join(name if len(name) <= 40 else f"{name[:39]}…" for name in names)
