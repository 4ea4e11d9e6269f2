"""A run's folder followed: which files are to be reported now, each once for each time it was written."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from handoffaudit.cli.watching import scanning
from handoffaudit.cli.watching.patterns import Pattern
from handoffaudit.cli.watching.scanning import Scan, Stamp

MOST_NAMESAKES: Final = 50


@dataclass(frozen=True, slots=True)
class Due:
    """A file to report: one that is there and was not changed for a while, or one that did not come in its time."""

    path: str
    iteration: int
    names: Mapping[str, str]
    missing: bool = False
    candidates: tuple[str, ...] = ()


@dataclass(slots=True)
class _Known:
    """What is known of a path. `since`: when it was first seen with that stamp."""

    stamp: Stamp | None = None
    since: float = 0.0
    reported: Stamp | None = None
    iteration: int = 0


@dataclass(slots=True)
class _Place:
    """A path at which a file is expected, since its folder was last changed."""

    changed: int
    since: float
    told: bool = False


@dataclass(slots=True)
class Follower:
    """`settle`: how many seconds a file has to stay as it is; `timeout`: after how many a file that is expected counts
    as missing, None for never. `expected`: paths below the folder."""

    root: Path
    pattern: Pattern
    expected: tuple[str, ...] = ()
    settle: float = 0.5
    timeout: float | None = None
    _known: dict[str, _Known] = field(default_factory=dict)
    _places: dict[str, _Place] = field(default_factory=dict)
    _reported: dict[Stamp, str] = field(default_factory=dict)

    def due(self, now: float, *, all_now: bool = False) -> Iterator[Due]:
        """What is to be reported at that moment of a clock that only goes forward. `all_now`: without waiting for
        anything. Raises OSError where the folder can't be read."""
        found = scanning.scan(self.root)
        there = {path: names for path in found.files if (names := self._names(path)) is not None}
        for gone in self._known.keys() - there.keys():
            self._known[gone].stamp = None
        for path in sorted(there):
            if self._is_due(path, found, now, all_now=all_now):
                yield Due(path, self._next(path), there[path])
        yield from self._missing(found, there.keys(), now, all_now=all_now)

    def took(self, due: Due, iteration: int | None = None) -> None:
        """It was reported. `iteration`: as which one it is known where it was reported before."""
        if due.missing:
            self._places[due.path].told = True
            return
        known = self._known[due.path]
        known.reported, known.iteration = known.stamp, iteration or due.iteration
        if known.stamp:
            self._reported[known.stamp] = due.path

    def _names(self, path: str) -> Mapping[str, str] | None:
        names = self.pattern.names(path)
        return {} if names is None and path in self.expected else names

    def _is_due(self, path: str, found: Scan, now: float, *, all_now: bool) -> bool:
        stamp = scanning.stamp(self.root / path)
        known = self._known.setdefault(path, _Known())
        if stamp is None or stamp != known.stamp:
            known.stamp, known.since = stamp, now
        if stamp is None or stamp == known.reported or self._was_moved(stamp, path, found):
            return False
        return all_now or now - known.since >= self.settle

    def _was_moved(self, stamp: Stamp, path: str, found: Scan) -> bool:
        """Whether the very same file was reported where it is no more."""
        before = self._reported.get(stamp)
        return before is not None and before != path and before not in found.files

    def _next(self, path: str) -> int:
        return self._known[path].iteration + 1

    def _missing(self, found: Scan, there: Iterable[str], now: float, *, all_now: bool) -> Iterator[Due]:
        wanted = {path: self._names(path) or {} for path in self.expected} | self._by_folders(found)
        for path, names in sorted(wanted.items()):
            if path in there or path in found.files:
                self._places.pop(path, None)
                continue
            changed = found.folders.get(str(PurePosixPath(path).parent), 0)
            place = self._places.setdefault(path, _Place(changed, now))
            if place.changed != changed:
                place.changed, place.since = changed, now
            over = all_now or (self.timeout is not None and now - place.since >= self.timeout)
            if over and not place.told:
                yield Due(path, self._iteration_of(path), names, missing=True, candidates=self._namesakes(path, found))

    def _iteration_of(self, path: str) -> int:
        known = self._known.get(path)
        return known.iteration + 1 if known else 1

    def _by_folders(self, found: Scan) -> dict[str, Mapping[str, str]]:
        """Files that should come, since the folder is there that each is expected in."""
        folder = self.pattern.folder()
        if folder is None or self.timeout is None:
            return {}
        named = {path: names for path in found.folders if (names := folder.names(path)) is not None}
        return {f"{path}/{self.pattern.file_name}": names for path, names in named.items()}

    def _namesakes(self, path: str, found: Scan) -> tuple[str, ...]:
        """Files of that name which no other agent has where they are."""
        name = PurePosixPath(path).name
        others = (one for one in found.files if PurePosixPath(one).name == name and one not in self.expected)
        return tuple(sorted(one for one in others if not self.pattern.names(one)))[:MOST_NAMESAKES]
