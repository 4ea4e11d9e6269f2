"""The claims in a handoff's data, the sources that each claim rests on, and the values that were looked up."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from typing import Any, Final, Literal

import msgspec

from handoffaudit.validation.errors import InvalidConfigError, config_error
from handoffaudit.validation.paths import (
    MISSING,
    MOST_STEPS,
    Location,
    PathError,
    StepBudget,
    StepBudgetSpentError,
    dotted_path,
    parse_path,
    pointer,
    select,
)
from handoffaudit.validation.text import clean, show

Kind = Literal["number", "date", "name", "quote", "identifier", "wording", "calculation"]

Status = Literal["grounded", "derived", "reported", "ungrounded"]


class Source(msgspec.Struct, frozen=True, gc=False):
    """One text that claims may rest on.

    `name` is shown to people (`context.page`, `evidence[2].content`). Each value of structured data is a separate
    source, named by its path (`context.order.total`). A text that is itself JSON, CSV or `key: value` lines is one
    source. `keys` is the part of the path below the supplied value: `.total`, if the sender supplied `context.order`.
    The keys count as content, like the text. The name of the supplied value does not: the sender chose the name.
    """

    name: str
    text: str
    keys: str = ""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """One value of a claim, or a run of words (`wording`), with the sources that it rests on.

    `start` and `end` are character offsets in the claim's text, half-open. `where` names the sources of a grounded
    value, and for a derived value the calculation (`3 + 4`, `rounded from 54.0267`). `closest` is the source value most
    similar to an ungrounded value, or an empty text if no similar value was found. For a wrong calculation, `where` has
    the calculation, and `closest` is the right result. `counts` is False for an ungrounded value whose finding is only
    a note (severity `info`), such as a number in a plan or in code. A `reported` value is not judged, because its
    origin is unknown: no evidence contains the value. It came from an agent that was guessed to be an observer or a
    person, or from a text that states nothing, such as JSON.
    """

    kind: Kind
    start: int
    end: int
    text: str
    status: Status
    where: tuple[str, ...] = ()
    closest: str = ""
    counts: bool = True


LONGEST_TEXT = 500

MOST_CLAIMS = 500

MOST_FIELDS = 100

SHORTEST_STATEMENT = 10

ABOUT_CLAIMS = frozenset({"_output_type", "evidence_refs", "assumptions"})

SHIPPED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "CMTAssessmentResponse": (
        "thesis",
        "trade_plan.entry_price",
        "trade_plan.stop_loss",
        "trade_plan.targets",
        "layers.*.key_findings",
        "confluence.total",
    ),
    "Signal": ("rationale", "stop_loss", "take_profit", "confidence"),
}
"""The claim fields that the library ships, by output type."""

_MOST_IDS = 20

_LONGEST_INTEGER = 190
_LEAST_SPELLED, _GREATEST_SPELLED = 1e-15, 1e40

# Looking up the citation of a statement takes longer than visiting a value.
_STEPS_PER_STATEMENT = 2


class ClaimKind(StrEnum):
    """The kind of support that a claim has, the `claim_type` of the API.

    `CITES_UNKNOWN`: the claim cites only sources that were not supplied, and counts as uncited. The library's
    `ClaimType` has all kinds but this one.
    """

    CITED = "cited"
    CITES_UNKNOWN = "cites_unknown"
    ASSUMPTION = "assumption"
    UNCITED = "uncited"
    DERIVED = "derived"


WITHOUT_SOURCE: Final = frozenset({ClaimKind.UNCITED, ClaimKind.CITES_UNKNOWN})


class Claim(msgspec.Struct, frozen=True):
    """A statement in the data that can be checked.

    `location` is the path from the root of the data, `place` the path from the root of the document. `text` is not cut;
    a stored verdict holds only its first 500 characters. `is_whole` is True if the data is this text instead of an
    object. `marks` say which values of the text are grounded. `validator_confidence`, from 0.0 to 1.0, is the share of
    the marks that are grounded or derived, and 0.0 without marks.
    """

    claim_id: str
    location: Location
    place: Location
    text: str
    claim_type: ClaimKind
    evidence_ids: tuple[str, ...] = ()
    confidence: float = 1.0
    validator_confidence: float = 0.0
    marks: tuple["Mark", ...] = ()
    is_whole: bool = False

    @property
    def path(self) -> str:
        """Return the path from the root of the data, or the name of the data if the claim is the whole data."""
        return dotted_path(self.place[-1:] if self.is_whole else self.location)


class Citations(msgspec.Struct, frozen=True):
    """The sources that the data cites.

    `sources` maps a path to the ids that it cites. `supported` holds the paths with at least one supplied source, and
    `assumptions` the paths that the sender marks as assumptions. Entries of a wrong type are left out.
    """

    sources: Mapping[str, tuple[str, ...]]
    supported: frozenset[str]
    assumptions: frozenset[str]

    @classmethod
    def of(cls, stating: Mapping[str, Any], supplied: Container[str]) -> "Citations":
        refs, assumed = stating.get("evidence_refs"), stating.get("assumptions")
        named = {path: _ids(value) for path, value in refs.items()} if isinstance(refs, dict) else {}
        paths = [path for path in assumed if isinstance(path, str)] if isinstance(assumed, list) else []
        supported = frozenset(path for path, ids in named.items() if any(one in supplied for one in ids))
        return cls(named, supported, frozenset(paths))


def _ids(value: object) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    return tuple(one for one in given if isinstance(one, str) and one)


class Extraction(msgspec.Struct, frozen=True):
    """The claims of one handoff, at most 500.

    `total` counts all claims that were read, including claims past the first 500. `uncited` counts the claims among
    them that cite only sources that were not supplied, and the texts that neither cite a source nor are assumptions.
    `unread` are the claim fields that were not read, because the fields point at too many values.
    """

    claims: tuple[Claim, ...]
    total: int
    uncited: int
    citations: Citations
    unread: tuple[str, ...] = ()


def extract(
    data: dict[str, Any],
    fields: Sequence[str] | None = None,
    *,
    supplied: Container[str],
    within: Location = (),
    place_of: Callable[[Location], Location] = lambda location: location,
    is_text: bool = False,
) -> Extraction:
    """Return the claims of `data`.

    Claims are the texts and numbers at `fields`. Without fields, claims are the texts and numbers at the top of the
    object at `within`, which also holds `evidence_refs` and `assumptions`. A text of at most 10 characters is a claim
    only if it cites a source or is an assumption. `supplied` holds the names of the sources that can be cited.
    `place_of` maps a location in the data to its place in the document. `is_text` is True if the document has a text in
    place of the data. All fields together may take 300,000 steps. If a field exceeds this budget, neither this field
    nor the fields after it are read at all. So the result does not depend on the order of keys in the data.
    """
    stating: Any = data
    for key in within:
        stating = stating.get(key) if isinstance(stating, dict) else None
    stating = stating if isinstance(stating, dict) else {}
    citations = Citations.of(stating, supplied)
    statements, unread = (_at_the_top(stating, within), ()) if fields is None else _at_fields(data, fields)
    found = [
        (location, value, kind, ids)
        for location, value in statements
        for kind, ids in [_classify(location, value, citations, within)]
        if kind is not None
    ]
    kept = found if len(found) <= MOST_CLAIMS else sorted(found, key=lambda one: dotted_path(one[0]))[:MOST_CLAIMS]
    claims = tuple(
        Claim(f"claim-{number}", location, place_of(location), _text(value), kind, ids, is_whole=is_text)
        for number, (location, value, kind, ids) in enumerate(kept, 1)
    )
    return Extraction(claims, len(found), sum(one[2] in WITHOUT_SOURCE for one in found), citations, unread)


_Statement = tuple[Location, Any]


def _at_the_top(stating: dict[str, Any], within: Location) -> list[_Statement]:
    return [((*within, key), value) for key, value in stating.items() if key not in ABOUT_CLAIMS and _states(value)]


def _at_fields(data: dict[str, Any], fields: Sequence[str]) -> tuple[list[_Statement], tuple[str, ...]]:
    """Return the texts and numbers at `fields`, each place once, and the fields that could not be read."""
    found: dict[Location, Any] = {}
    effort = StepBudget(MOST_STEPS)
    for number, path in enumerate(fields):
        try:
            found |= {
                place: one
                for location, value in select(data, parse_path(path), effort=effort)
                for place, one in _items(location, value, effort)
                if place not in found
            }
        except StepBudgetSpentError:
            return list(found.items()), tuple(fields[number:])
    return list(found.items()), ()


def _items(location: Location, value: Any, effort: StepBudget) -> Iterator[_Statement]:
    """Yield the value if it is a text or number. Of a list, yield the texts and numbers in it and in nested lists."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            effort.spend()
            yield from _items((*location, index), item, effort)
    elif value is not MISSING and _states(value):
        effort.spend(_STEPS_PER_STATEMENT)
        yield location, value


def _states(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _classify(
    location: Location, value: Any, citations: Citations, within: Location
) -> tuple[ClaimKind | None, tuple[str, ...]]:
    paths = _paths(location, within) if citations.sources or citations.assumptions else []
    citing = next((path for path in paths if citations.sources.get(path)), None)
    if citing is not None:
        kind = ClaimKind.CITED if citing in citations.supported else ClaimKind.CITES_UNKNOWN
        return kind, tuple(clean(one) for one in islice(citations.sources[citing], _MOST_IDS))
    if any(path in citations.assumptions for path in paths):
        return ClaimKind.ASSUMPTION, ()
    if not isinstance(value, str):
        return ClaimKind.DERIVED, ()
    if "assumption" in value.lower():
        return ClaimKind.ASSUMPTION, ()
    return (ClaimKind.UNCITED if len(value) > SHORTEST_STATEMENT else None), ()


def _paths(location: Location, within: Location) -> list[str]:
    """Return the ways in which a sender may name the location.

    A sender may write the path from the root of the data, or the path from the object at `within`. Instead of the path
    of a value in a list, the sender may write the path of the list. For a field at the top of the object, the plain key
    is enough, and the key may contain dots and brackets.
    """
    paths = [dotted_path(location)]
    if within and location[: len(within)] == within:
        paths.append(dotted_path(location[len(within) :]))
    outer = location
    while outer and isinstance(outer[-1], int):
        outer = outer[:-1]
        paths.append(dotted_path(outer))
    top = plain_key(outer, within)
    return [*paths, top] if top else paths


def plain_key(location: Location, within: Location) -> str:
    """Return the key of a field at the top of the object at `within`, or an empty text for a deeper field."""
    key = location[-1] if location and location[:-1] == within else ""
    return key if isinstance(key, str) else ""


def spell_out(number: float) -> str:
    """Return a number without an exponent, such as 0.00001 for 1e-05, unless it would be very long."""
    is_short = _LEAST_SPELLED <= abs(number) <= _GREATEST_SPELLED
    return f"{Decimal(repr(number)):f}" if is_short and "e" in repr(number) else repr(number)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return spell_out(value)
    return show(value) if isinstance(value, int) and value.bit_length() > _LONGEST_INTEGER else str(value)


def parse_fields(plain: object) -> tuple[str, ...]:
    """Return the claim fields of a type from plain JSON: a list of dotted paths, without duplicates.

    Raises InvalidConfigError if `plain` is not a list, has more than 100 paths, or has paths with flaws. A path is
    flawed if it is not a text, has invisible characters, or cannot be read. The error lists every flawed path.
    """
    if not isinstance(plain, list):
        raise InvalidConfigError(
            [config_error("", plain, "The claim fields are not a list.", "Give a list of dotted paths.")]
        )
    if len(plain) > MOST_FIELDS:
        message = f"There are {len(plain):,} claim fields, over the limit of {MOST_FIELDS}."
        remedy = f"Keep at most {MOST_FIELDS}; * stands for any list item or object value."
        raise InvalidConfigError([config_error("", len(plain), message, remedy)])
    flaws = list(_field_flaws(plain))
    if flaws:
        raise InvalidConfigError(flaws)
    return tuple(dict.fromkeys(plain))


def _field_flaws(plain: Iterable[Any]) -> Iterator[Any]:
    example = 'Write it as in "layers.*.key_findings".'
    for index, path in enumerate(plain):
        if not isinstance(path, str):
            yield config_error(f"[{index}]", path, f"The path is {show(path)}, not a text.", example)
            continue
        if not path.isprintable():
            yield config_error(f"[{index}]", path, f"{show(path)} has invisible characters.", "Remove them.")
            continue
        try:
            parse_path(path)
        except PathError as error:
            yield config_error(f"[{index}]", path, f"{show(path)}: {error}", example)


def claim_to_dict(claim: Claim) -> dict[str, Any]:
    """Return the claim as the API and files show it."""
    return {
        "claim_id": claim.claim_id,
        "field_path": clean(claim.path) if claim.is_whole else dotted_path(_storable(claim.location)),
        "json_pointer": pointer(_storable(claim.place)),
        "claim_text": clean(claim.text[:LONGEST_TEXT], LONGEST_TEXT),
        "claim_type": str(claim.claim_type),
        "evidence_ids": list(claim.evidence_ids),
        "confidence": claim.confidence,
        "validator_confidence": claim.validator_confidence,
        "values": [_mark_dict(mark) for mark in claim.marks],
    }


def _storable(location: Location) -> Location:
    return tuple(clean(part) if isinstance(part, str) else part for part in location)


def _mark_dict(mark: "Mark") -> dict[str, Any]:
    return {
        "kind": mark.kind,
        "start": mark.start,
        "end": mark.end,
        "text": clean(mark.text),
        "status": mark.status,
        "where": [clean(one) for one in mark.where],
        "closest": clean(mark.closest) if mark.closest else "",
        "counts": mark.counts,
    }
