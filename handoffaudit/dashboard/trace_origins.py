"""The wrong values of a trace as its page shows them: the asked part, the kinds, and the values with their handoffs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from handoffaudit.dashboard.safe_text import readable
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.diagnostics.traces import Trace, Traced
from handoffaudit.validation.origins import Origin

ALL: Final = "all"

SHOWN: Final = 12

# The handoffs in the table at a time.
ROWS: Final = 25

MOST_ORIGINS: Final = 200

_MOST_REPEATED: Final = 10


@dataclass(frozen=True, slots=True)
class Kind:
    """A rule code that found wrong values; `query` filters the list by the rule code."""

    title: str
    number: int
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ShownOrigin:
    """A wrong value with its handoffs.

    `number` is its index in the trace. `repeated` holds handoffs that carry the value, `more` counts further carriers,
    `query` marks the value's path, and `place` is the query of a handoff's page that marks the value in the document.
    """

    number: int

    value: str
    codes: tuple[str, ...]
    first: Traced
    from_outside: bool
    flagged_first: bool
    repeated: tuple[Traced, ...]
    more: int
    query: str
    place: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """The requested part of a trace's values: one rule code, and the value to mark.

    `number` is the index of the marked value; None marks the first wrong value, and -1 marks all values. `first` is the
    index of the first handoff in the table.
    """

    code: str = ""
    number: int | None = None
    is_full: bool = False
    first: int = 0

    @classmethod
    def of(cls, params: Mapping[str, str]) -> "Asked":
        value = params.get("value", "")
        is_number = value.isascii() and value.isdigit() and len(value) < 6
        number = -1 if value == ALL else int(value) if is_number else None
        first = int(rows) if (rows := params.get("rows", "")).isascii() and rows.isdigit() and len(rows) < 6 else 0
        return cls(params.get("kind", "")[:100], number, params.get("lanes", "") == "full", first // ROWS * ROWS)

    def query(self, **changes: str) -> str:
        now = {
            "kind": self.code,
            "value": "" if self.number is None else ALL if self.number < 0 else str(self.number),
            "lanes": "full" if self.is_full else "",
            "rows": str(self.first) if self.first else "",
        }
        return urlencode({name: value for name, value in (now | changes).items() if value})


def place_query(value: str) -> str:
    """Return the query of a handoff's page that marks the place of the value in its document."""
    return urlencode({"in": "trace", "value": value})


def marked_origin(shown: Trace, asked: Asked) -> Origin | None:
    """Return the value whose path is marked; None if all paths are marked."""
    if asked.number is not None:
        return shown.origins[asked.number] if 0 <= asked.number < len(shown.origins) else None
    first = shown.first
    if first is None or not first.flaw.value:
        return None
    return next((one for one in shown.origins if first.step in one.flagged and first.flaw.value == one.value), None)


def kinds(shown: Trace, asked: Asked) -> list[Kind]:
    """Return the rule codes that found values, most frequent first; an empty list if there is only one rule code."""
    counts = Counter(one.codes[0] for one in shown.origins)
    if len(counts) < 2:
        return []
    found = [
        Kind(code_title(code), number, asked.query(kind=code), code == asked.code)
        for code, number in counts.most_common()
    ]
    return [Kind("All", len(shown.origins), asked.query(kind=""), not asked.code), *found]


def list_origins(shown: Trace, asked: Asked, chosen: Origin | None) -> list[ShownOrigin]:
    """Return the wrong values, the most harmful first.

    Values introduced in the trace come before values from outside, then numbers and dates before words, then values
    that later handoffs carry on, then in trace order.
    """
    numbered = [(at, one) for at, one in enumerate(shown.origins) if asked.code in ("", one.codes[0])]
    in_turn = sorted(numbered, key=lambda each: _harm(each[1]))
    return [_shown(shown, asked, at, one, is_chosen=one is chosen) for at, one in in_turn]


def _harm(one: Origin) -> tuple[bool, bool, bool, int]:
    """Return the key by which the most harmful value comes first."""
    return one.from_outside, not any(sign.isdigit() for sign in one.value), not one.carriers, one.step


def _shown(shown: Trace, asked: Asked, at: int, one: Origin, *, is_chosen: bool) -> ShownOrigin:
    return ShownOrigin(
        number=at,
        value=readable(one.value),
        codes=one.codes,
        first=shown.handoffs[one.step],
        from_outside=one.from_outside,
        flagged_first=one.step in one.flagged,
        repeated=tuple(shown.handoffs[place] for place in one.carriers[:_MOST_REPEATED]),
        more=max(len(one.carriers) - _MOST_REPEATED, 0),
        query=asked.query(value=str(at)),
        place=place_query(one.value),
        is_chosen=is_chosen,
    )
