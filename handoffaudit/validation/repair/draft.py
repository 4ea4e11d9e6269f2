"""A candidate in the making: a document, and what was changed to come to it."""

from dataclasses import dataclass, field
from typing import Any

from handoffaudit.validation.differing import Change, added, changed, removed
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.repair.editing import placed, renamed, without

ABSENT = object()


@dataclass(frozen=True, slots=True)
class Draft:
    """Each change makes a new draft, and None where it cannot be made: what it would stand in is not there.

    `moved`: fields that got their name from a guess. `note`: what the last try could not reach.
    """

    document: Document
    changes: tuple[Change, ...] = ()
    moved: frozenset[Location] = field(default=frozenset())
    note: str = ""

    def value(self, location: Location) -> Any:
        return at(self.document, location, ABSENT)

    def put(self, location: Location, value: Any, why: str) -> "Draft | None":
        if not self._holds(location):
            return None
        before = self.value(location)
        change = added(location, value, why) if before is ABSENT else changed(location, before, value, why)
        return Draft(placed(self.document, location, value), (*self.changes, change), self.moved)

    def drop(self, location: Location, why: str) -> "Draft | None":
        """Only fields are dropped: without an entry the others of its list would have other places."""
        before = self.value(location)
        if before is ABSENT or not location or isinstance(location[-1], int):
            return None
        change = removed(location, before, why)
        return Draft(without(self.document, location), (*self.changes, change), self.moved - {location})

    def rename(self, location: Location, name: str, why: str) -> "Draft | None":
        """To a name that is not taken."""
        new = (*location[:-1], name)
        value = self.value(location)
        if value is ABSENT or isinstance(location[-1], int) or self.value(new) is not ABSENT:
            return None
        changes = (*self.changes, removed(location, value, why), added(new, value, why))
        return Draft(renamed(self.document, location, name), changes, self.moved | {new})

    def _holds(self, location: Location) -> bool:
        holder, key = self.value(location[:-1]), location[-1]
        if isinstance(key, int):
            return isinstance(holder, list) and key < len(holder)
        return isinstance(holder, dict)
