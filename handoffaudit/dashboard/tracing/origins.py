"""The wrong values of a trace as its page lists them, and the one whose way is marked in the drawing."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from handoffaudit.dashboard.readable import readable
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.diagnostics.traces import Trace, Traced
from handoffaudit.validation.provenance import Origin

ALL: Final = "all"
SHOWN: Final = 12
MOST: Final = 200
_MOST_REPEATED: Final = 10


@dataclass(frozen=True, slots=True)
class Kind:
    """A code that values were found by; `query` narrows the list to it."""

    title: str
    number: int
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class ShownOrigin:
    """A wrong value with its handoffs; `more` others carry it beside those of `repeated`. `query` marks its way."""

    value: str
    codes: tuple[str, ...]
    first: Traced
    from_outside: bool
    flagged_first: bool
    repeated: tuple[Traced, ...]
    more: int
    query: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a trace's values is asked for: those of one `code`, and the `number` of the one that is marked; None:
    the first wrong one, -1: all."""

    code: str = ""
    number: int | None = None
    is_full: bool = False

    @classmethod
    def of(cls, params: Mapping[str, str]) -> "Asked":
        value = params.get("value", "")
        is_number = value.isascii() and value.isdigit() and len(value) < 6
        number = -1 if value == ALL else int(value) if is_number else None
        return cls(params.get("kind", "")[:100], number, params.get("lanes", "") == "full")

    def query(self, **changes: str) -> str:
        now = {
            "kind": self.code,
            "value": "" if self.number is None else ALL if self.number < 0 else str(self.number),
            "lanes": "full" if self.is_full else "",
        }
        return urlencode({name: value for name, value in (now | changes).items() if value})


def marked(shown: Trace, asked: Asked) -> Origin | None:
    """The value whose way is marked; None: all are."""
    if asked.number is not None:
        return shown.origins[asked.number] if 0 <= asked.number < len(shown.origins) else None
    first = shown.first
    if first is None or not first.flaw.value:
        return None
    return next((one for one in shown.origins if first.step in one.flagged and first.flaw.value == one.value), None)


def kinds(shown: Trace, asked: Asked) -> list[Kind]:
    """The codes by which values were found, with how many; the most first. None where all are of one."""
    counts = Counter(one.codes[0] for one in shown.origins)
    if len(counts) < 2:
        return []
    found = [
        Kind(code_title(code), number, asked.query(kind=code), code == asked.code)
        for code, number in counts.most_common()
    ]
    return [Kind("All", len(shown.origins), asked.query(kind=""), not asked.code), *found]


def listed(shown: Trace, asked: Asked, chosen: Origin | None) -> list[ShownOrigin]:
    """What was made up here before what came from outside; of these, in the order of the trace."""
    numbered = [(at, one) for at, one in enumerate(shown.origins) if asked.code in ("", one.codes[0])]
    in_turn = sorted(numbered, key=lambda each: (each[1].from_outside, each[1].step))
    return [_shown(shown, asked, at, one, is_chosen=one is chosen) for at, one in in_turn]


def _shown(shown: Trace, asked: Asked, at: int, one: Origin, *, is_chosen: bool) -> ShownOrigin:
    return ShownOrigin(
        value=readable(one.value),
        codes=one.codes,
        first=shown.handoffs[one.step],
        from_outside=one.from_outside,
        flagged_first=one.step in one.flagged,
        repeated=tuple(shown.handoffs[place] for place in one.carriers[:_MOST_REPEATED]),
        more=max(len(one.carriers) - _MOST_REPEATED, 0),
        query=asked.query(value=str(at)),
        is_chosen=is_chosen,
    )
