"""How far from each other the items of a map's layers stand: near what they are connected with, in their order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from handoffaudit.drawing.agent_map.order import Item, Neighbours

_SWEEPS: Final = 4
# A line that bends is harder to follow than one that enters a box beside its middle.
_STRAIGHT: Final = 4.0


@dataclass(frozen=True, slots=True)
class Column:
    """One layer: its items in order with their sizes, and the least gaps between two boxes, a box and a line, and two
    lines."""

    items: Sequence[Item]
    sizes: Sequence[float]
    boxes: float
    beside: float
    lines: float

    @property
    def length(self) -> float:
        return sum(self.sizes) + sum(self._gap(number) for number in range(1, len(self.items)))

    def apart(self) -> list[float]:
        """From the middle of each one to that of the next, at least."""
        return [
            self.sizes[number - 1] / 2 + self._gap(number) + self.sizes[number] / 2
            for number in range(1, len(self.items))
        ]

    def _gap(self, number: int) -> float:
        agents = sum(isinstance(item, str) for item in self.items[number - 1 : number + 1])
        return (self.lines, self.beside, self.boxes)[agents]


def aligned(columns: Sequence[Column], neighbours: Neighbours, room: float) -> dict[Item, float]:
    """The middle of each item within `room`, which no column is longer than."""
    centres: dict[Item, float] = {}
    for column in columns:
        centres |= _stacked(column, room)
    layer_of = {item: number for number, column in enumerate(columns) for item in column.items}
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wanted = [_wanted(item, neighbours, centres, layer_of) for item in column.items]
            pulls = [1.0 if isinstance(item, str) else _STRAIGHT for item in column.items]
            least, most = column.sizes[0] / 2, room - column.sizes[-1] / 2
            found = spread(wanted, column.apart(), pulls, least, most)
            centres |= dict(zip(column.items, found, strict=True))
    return centres


def _stacked(column: Column, room: float) -> dict[Item, float]:
    at = (room - column.length) / 2 + (column.sizes[0] / 2 if column.sizes else 0)
    found = {}
    for item, further in zip(column.items, [*column.apart(), 0.0], strict=True):
        found[item] = at
        at += further
    return found


def _wanted(item: Item, neighbours: Neighbours, centres: Mapping[Item, float], layer_of: Mapping[Item, int]) -> float:
    near = [(centres[other], number) for other, number in neighbours.get(item, ()) if layer_of[other] != layer_of[item]]
    total = sum(number for _, number in near)
    return sum(centre * number for centre, number in near) / total if total else centres[item]


def spread(
    wanted: Sequence[float], apart: Sequence[float], pulls: Sequence[float], least: float, most: float
) -> list[float]:
    """The places nearest to the wanted ones (least squares, by their pulls) that keep the order, stand `apart` and
    between `least` and `most`: pool-adjacent-violators on what is left without the distances."""
    offsets = [0.0]
    for distance in apart:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, float, int]] = []
    for want, offset, pull in zip(wanted, offsets, pulls, strict=True):
        mean, weight, size = want - offset, pull, 1
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, size = weight + heavy, size + many
        pools.append((mean, weight, size))
    flat = [mean for mean, _, size in pools for _ in range(size)]
    return [min(max(mean, least), most - offsets[-1]) + offset for mean, offset in zip(flat, offsets, strict=True)]
