"""The hints that can be followed without the sender, one function per rule code."""

from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from types import MappingProxyType
from typing import Any, Final

from handoffaudit.validation.coerce import as_checksum, as_storable, as_utc, as_uuid, convert
from handoffaudit.validation.formats import BY_NAME, FORMATS, messages, payload, universal
from handoffaudit.validation.formats.base import Places
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers import consistency
from handoffaudit.validation.paths import Location
from handoffaudit.validation.repair.edit import ABSENT, Draft, Work, cut
from handoffaudit.validation.times import utc_text

_VERSION: Final[Location] = ("handoff", "version")
_META: Final[Location] = ("handoff", "meta")
_ALIKE: Final = 0.7
# Maps each chain to the field of the source, which the chain must contain.
_SOURCES: Final[Mapping[Location, Location]] = MappingProxyType(
    {form.places.chain: form.places.source for form in FORMATS if form.places.chain and form.places.source}
)

Fix = Callable[[Draft, Issue, Work], Draft | None]


def follow(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    """Follow the hint of an issue and return the new draft, or None if only the sender can follow the hint."""
    fix = _FIXES.get(issue.code)
    found = fix(draft, issue, work) if fix else None
    if found is not None or fix is None:
        return found
    moved = next((place for place in draft.moved if issue.location[: len(place)] == place), None)
    return draft.drop(moved, "its value does not fit the field with the closest name") if moved else None


def _places(work: Work) -> Places:
    return BY_NAME[work.form].places


def _missing_field(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    place, name = issue.location, issue.metadata.get("misspelt")
    if draft.value(place) is not ABSENT:
        return None
    if isinstance(name, str) and _is_similar(name, str(place[-1])):
        found = draft.rename((*place[:-1], name), str(place[-1]), "the closest known name of a missing field")
        if found is not None:
            return found
    value, why = _default(draft, issue, work)
    return None if value is ABSENT else draft.put(place, value, why)


def _default(draft: Draft, issue: Issue, work: Work) -> tuple[Any, str]:
    place, places = issue.location, _places(work)
    if place in work.means.known:
        return work.means.known[place], "known from the submission"
    if place == places.timestamp:
        return utc_text(work.means.now), "missing; the time of the repair"
    if place == places.trace_id:
        return work.means.new_id(), "missing; a new id"
    if place == _META:
        return {}, "missing; its fields have defaults"
    if place in _SOURCES:
        return _own_chain(draft, place), "a chain has at least its source"
    return issue.metadata.get("default", ABSENT), "missing; its default"


def _own_chain(draft: Draft, place: Location) -> Any:
    source = draft.value(_SOURCES[place])
    return [source] if isinstance(source, str) and source else ABSENT


def _trace_id(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    """Insert the trace id that the handoff was read with, so that the candidate stays in its trace; else a new id."""
    given = issue.metadata.get("trace_id")
    if as_uuid(given) == given:
        return draft.put(issue.location, given, "missing; the trace id that the handoff was stored with")
    return draft.put(issue.location, work.means.new_id(), "missing; a new id")


def _wrong_type(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    place, value, places = issue.location, draft.value(issue.location), _places(work)
    if place == places.token_count:
        return _count(draft, issue, work)
    if value is None:
        return draft.drop(place, "null, which stands for a missing field")
    if place == _VERSION and value == 3 and not isinstance(value, bool):
        return draft.put(place, "3.0", "the version, as text")
    if place in (places.timestamp, places.expires_at):
        return _put_unless_none(draft, place, as_utc(value), "converted to a time in UTC")
    types = [issue.expected] if isinstance(issue.expected, str) else issue.expected or []
    return _put_unless_none(draft, place, convert(value, types), "converted to the required type")


def _count(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    """Insert 0 as the token count. The count is recomputed when the draft is judged."""
    return draft.put(issue.location, 0, "replaced by a count")


def _empty(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    place = issue.location
    if place in work.means.known:
        return draft.put(place, work.means.known[place], "known from the submission")
    if place in _SOURCES and (own := _own_chain(draft, place)) is not ABSENT:
        return draft.put(place, own, "a chain has at least its source")
    return None


def _out_of_range(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    place, value, limits = issue.location, draft.value(issue.location), issue.expected
    if place == _places(work).token_count:
        return _count(draft, issue, work)
    if not isinstance(limits, dict) or isinstance(value, bool) or not isinstance(value, int | float):
        return None
    low, high = limits.get("minimum"), limits.get("maximum")
    closest = low if low is not None and value < low else high if high is not None and value > high else None
    return _put_unless_none(draft, place, closest, "the closest value within the range")


def _bad_enum(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    options = issue.expected if isinstance(issue.expected, list) else []
    only = options[0] if len(options) == 1 else None
    choice = issue.metadata.get("closest", only)
    return _put_unless_none(draft, issue.location, choice, "the closest of the allowed values")


def _bad_format(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    value, form = draft.value(issue.location), str(issue.expected or "")
    if not isinstance(value, str):
        return None
    if "date" in form:
        return _put_unless_none(draft, issue.location, as_utc(value), "written as a time in UTC")
    for word, how in (("UUID", as_uuid), ("checksum", as_checksum)):
        if word in form:
            return _put_unless_none(draft, issue.location, how(value), "written in the required format")
    return _put_unless_none(draft, issue.location, as_storable(value), "removed characters that cannot be stored")


def _too_long(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    """Cut a text to its limit. Names and ids are not cut, because two names might become equal."""
    value, limit = draft.value(issue.location), issue.metadata.get("cut")
    if not isinstance(value, str) or not isinstance(limit, int):
        return None
    return draft.put(issue.location, cut(value, limit), f"cut to {limit} characters")


def _unknown_field(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    if isinstance(issue.expected, str) and _is_similar(str(issue.location[-1]), issue.expected):
        found = draft.rename(issue.location, issue.expected, "the closest known name")
        if found is not None:
            return found
    return draft.drop(issue.location, "not a field of this format")


def _is_similar(name: str, known: str) -> bool:
    """Return whether two names are similar enough to rename a field without asking.

    The limit is higher than for a hint, because a person reads a hint before following it. For example, the field
    "extra" must not become "meta".
    """
    return SequenceMatcher(None, name.lower(), known.lower()).ratio() >= _ALIKE


def _source_not_in_chain(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    """Correct the spelling of the source's entry, or else append the source.

    An entry counts as the source's entry if the two names differ only in case and punctuation.
    """
    chain, source = draft.value(issue.location), draft.value(_SOURCES.get(issue.location, ()))
    if not isinstance(chain, list) or not isinstance(source, str):
        return None
    for index in range(len(chain) - 1, -1, -1):
        if isinstance(chain[index], str) and _fold_spelling(chain[index]) == _fold_spelling(source):
            return draft.put((*issue.location, index), source, "spelled like the source")
    return draft.put(issue.location, [*chain, source], "added the source as the last entry")


def _fold_spelling(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())


def _not_utc(draft: Draft, issue: Issue, work: Work) -> Draft | None:
    return _put_unless_none(draft, issue.location, as_utc(draft.value(issue.location)), "written in UTC, with Z")


def _put_unless_none(draft: Draft, place: Location, value: Any, why: str) -> Draft | None:
    return None if value is None else draft.put(place, value, why)


_FIXES: Final[Mapping[str, Fix]] = MappingProxyType(
    {
        messages.MISSING_FIELD.code: _missing_field,
        universal.GENERATED_TRACE_ID.code: _trace_id,
        messages.WRONG_TYPE.code: _wrong_type,
        messages.EMPTY.code: _empty,
        messages.OUT_OF_RANGE.code: _out_of_range,
        messages.BAD_ENUM.code: _bad_enum,
        messages.BAD_FORMAT.code: _bad_format,
        messages.TOO_LONG.code: _too_long,
        messages.UNKNOWN_FIELD.code: _unknown_field,
        payload.SOURCE_NOT_IN_CHAIN.code: _source_not_in_chain,
        consistency.TIMESTAMP_NOT_UTC.code: _not_utc,
    }
)
