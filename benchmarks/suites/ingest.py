"""Benchmark of ingest: submissions per second, against a view that only inserts (COPYs) the same rows.

Each submission is answered after its commit.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from statistics import median

from benchmarks import load, places, rig, servers
from benchmarks.load import Load
from benchmarks.options import Options
from benchmarks.places import Place
from benchmarks.report import Row, number

SINGLE_GOAL, SINGLE_SHARE = 1000, 0.8
BATCH_GOAL, BATCH_SHARE = 8000, 0.6
SQLITE_SHARE = 0.7
CONNECTIONS = 8
BATCH, BATCH_CONNECTIONS = 500, 4


def single(options: Options) -> Iterator[Row]:
    on_postgresql = 0.0
    for place_of in _places(options):
        with place_of as place:
            yield from (rows := list(_single(place, options, on_postgresql)))
            on_postgresql = on_postgresql or _figure(rows[0])


def batch(options: Options) -> Iterator[Row]:
    on_postgresql = 0.0
    for place_of in _places(options):
        with place_of as place:
            yield from (rows := list(_batch(place, options, on_postgresql)))
            on_postgresql = on_postgresql or _figure(rows[0])


def _places(options: Options) -> Iterator["AbstractContextManager[Place]"]:
    if "postgresql" in options.databases:
        yield places.postgresql("ingest")
    if "sqlite" in options.databases:
        yield places.sqlite()
        yield places.sqlite("FULL")


def _figure(row: Row) -> float:
    return float(row.figure.split("/s")[0].replace(",", ""))


def _single(place: Place, options: Options, on_postgresql: float) -> Iterator[Row]:
    ours, floors = alternate(
        place,
        options,
        Load(0, "/api/v1/handoffs", connections=CONNECTIONS, seconds=options.seconds),
        Load(0, "/insert", connections=CONNECTIONS, seconds=options.seconds),
        expected=202,
    )
    goal = max(SINGLE_GOAL if place.on_postgresql else 0, SQLITE_SHARE * on_postgresql)
    yield row_of(f"single, {place.name}, {CONNECTIONS} connections", ours, floors, goal, SINGLE_SHARE)


def _batch(place: Place, options: Options, on_postgresql: float) -> Iterator[Row]:
    goal = max(BATCH_GOAL if place.on_postgresql else 0, SQLITE_SHARE * on_postgresql)
    for name, array in (("NDJSON", False), ("array", True)):
        sent = Load(0, connections=BATCH_CONNECTIONS, seconds=options.seconds, batch=BATCH)
        ours, floors = alternate(
            place,
            options,
            replace(sent, path="/api/v1/handoffs/batch", array=array),
            replace(sent, path="/copy"),
            expected=200,
        )
        yield row_of(f"batches of {BATCH} ({name}), {place.name}", ours, floors, goal, BATCH_SHARE)


def alternate(
    place: Place, options: Options, ours: Load, floor: Load, expected: int
) -> tuple[list[float], list[float]]:
    """Return handoffs per second for each round, measured in turn for the product and the floor.

    No worker runs, so the rounds measure only ingest.
    """
    if not (place.folder / "made").exists():
        rig.migrate(place)
        rig.ask(place, "floor_table")
        (place.folder / "made").touch()
    headers = (("Authorization", f"Bearer {rig.ask(place, 'key')}"),)
    found: tuple[list[float], list[float]] = ([], [])
    with servers.product(place) as product, servers.floor(place) as bare:
        pair = (replace(ours, port=product.port, headers=headers), replace(floor, port=bare.port))
        for one in pair:
            load.send(replace(one, seconds=1.0)).only(expected)
        for number_of_round in range(options.rounds):
            # The product and the floor go first in turn, so that a drift of the machine affects both.
            order = (0, 1) if number_of_round % 2 == 0 else (1, 0)
            for which in order:
                found[which].append(load.send(pair[which]).only(expected, 202).per_second)
    return found


def row_of(what: str, ours: list[float], floors: list[float], goal: float, share: float) -> Row:
    figure, floor = median(ours), median(floors)
    ratio = figure / floor
    wanted = f"≥ {number(goal)}/s, ≥ {share:g}" if goal else f"≥ {share:g}"
    return Row(
        what=what,
        figure=f"{number(figure)}/s",
        floor=f"{number(floor)}/s",
        ratio=f"{ratio:.2f}",
        goal=wanted,
        met=figure >= goal and ratio >= share,
    )
