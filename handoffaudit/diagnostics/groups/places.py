"""What makes findings alike: the code, the shape of the path, and between whom."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from handoffaudit.validation.paths import shape
from handoffaudit.validation.provenance import Flaw
from handoffaudit.validation.text import clean

LONGEST_CODE: Final = 100
LONGEST_PATH: Final = 500
# "Ever", said as a range: of two indexes that fit a query, SQLite takes the one with the range, which is the small one.
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GRAVE: Final = frozenset({"error", "critical"})


class Place(NamedTuple):
    """What a group is of, within a tenant."""

    code: str
    path_shape: str
    source_agent_id: str
    target_agent_id: str

    @property
    def key(self) -> str:
        """The same for the same place, and short enough for every index. None of the texts has a NUL in it."""
        return hashlib.sha256("\0".join(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Grouped:
    """A handoff as groups count it: when it came, and its places, each with whether it is among its gravest."""

    at: datetime
    places: Mapping[Place, bool]


def place_of(code: str, path: str, source: str, target: str) -> Place:
    return Place(clean(code, LONGEST_CODE), shape(clean(path, LONGEST_PATH)), source, target)


def grouped(at: datetime, source: str, target: str, flaws: Iterable[Flaw]) -> Grouped:
    """Of a handoff with these findings, which are warnings and worse. Several of one place are one."""
    grave: dict[Place, bool] = {}
    for flaw in flaws:
        place = place_of(flaw.code, flaw.path, source, target)
        grave[place] = grave.get(place, False) or flaw.severity in _GRAVE
    has_grave = any(grave.values())
    return Grouped(at, {place: is_grave or not has_grave for place, is_grave in grave.items()})
