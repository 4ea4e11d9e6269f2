"""`python -m benchmarks.validation`: the cost of the deterministic layers for one handoff, on one core.

The floor does only the work that no validator can avoid, with the fastest tools. It parses the submission (orjson), and
checks it against a pydantic model and a JSON Schema (jsonschema-rs). It hashes the submission (SHA-256), and searches
its text with one regular expression. The product and the floor judge the same submissions in alternating rounds; the
figure is the processor time of the median round. The benchmark needs only the package itself and `jsonschema`.
"""

import argparse
import gzip
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import jsonschema_rs
import orjson
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field

from benchmarks import documents, long_documents, places
from benchmarks.options import QUICK, Options
from benchmarks.report import Row, number, table
from handoffaudit.cli.local_verdicts import Judge, read_policy, take_apart
from handoffaudit.validation import pipeline
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.formats import schema
from handoffaudit.validation.layers import LAYERS

PLAIN_GOAL, GROUNDED_GOAL = 1.6, 3.0
RATE_GOAL = 1500
GROUNDING_MS_GOAL = 1.0
# The cost counts as linear if a byte costs at most this many times as much in a larger document as in one of 4 KiB.
LINEAR_GOAL = 1.5
START_GOAL = 0.3
T = TypeVar("T")
# This many real submissions around the median length are measured.
TYPICAL = 100
CONCRETE = re.compile(r"\d[\d.,]*|[A-Z]\w+")


class FloorDocument(BaseModel):
    """The rules of the format as a pydantic model."""

    model_config = ConfigDict(extra="forbid")

    handoff_id: str = Field(min_length=1)
    source_agent_id: str = Field(min_length=1)
    target_agent_id: str = Field(min_length=1)
    tenant_id: str = Field(min_length=1)
    call_chain: list[str] = Field(min_length=1)
    handoff_type: str
    data: dict[str, Any]
    context_refs: list[str] = []
    confidence: float = Field(default=1.0, ge=0, le=1)
    timestamp: datetime | None = None


_RS = jsonschema_rs.validator_for(schema("payload"))
_PY = Draft202012Validator(schema("payload"))

FLOOR: dict[str, Callable[[bytes, Any], Any]] = {
    "orjson": lambda sent, _: orjson.loads(sent),
    "pydantic": lambda _, document: FloorDocument.model_validate(document),
    "jsonschema-rs": lambda _, document: _RS.is_valid(document),
    "SHA-256": lambda sent, _: hashlib.sha256(sent).hexdigest(),
    "one regular expression": lambda sent, _: CONCRETE.findall(sent.decode()),
}


def floor(sent: bytes) -> None:
    document = FLOOR["orjson"](sent, None)["document"]
    for name in ("pydantic", "jsonschema-rs", "SHA-256", "one regular expression"):
        FLOOR[name](sent, document)


@dataclass(frozen=True, slots=True)
class Timed:
    """Processor seconds for one handoff, by contender: the median of the contender's rounds."""

    seconds: dict[str, float]

    def __getitem__(self, name: str) -> float:
        return self.seconds[name]


def timed(contenders: dict[str, Callable[[], int]], options: Options) -> Timed:
    """Time the contenders in alternating rounds; each call returns how many handoffs it handled."""
    rounds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(max(3, options.rounds * 3)):
        for name, run in contenders.items():
            rounds[name].append(_round(run, options.seconds / 10))
    return Timed({name: median(found) for name, found in rounds.items()})


def _round(run: Callable[[], int], seconds: float) -> float:
    done = 0
    began = time.process_time()
    while (took := time.process_time() - began) < seconds or not done:
        done += run()
    return took / done


def judge_without(*layers: str) -> Judge:
    shipped = read_policy((), None)
    config = ValidationConfig(
        version=shipped.version,
        other=replace(shipped.other, layers_off=frozenset(layers)),
        types={name: replace(row, layers_off=frozenset(layers)) for name, row in shipped.types.items()},
    )
    return Judge(config)


def each(given: Sequence[T], work: Callable[[T], Any]) -> Callable[[], int]:
    def run() -> int:
        for one in given:
            work(one)
        return len(given)

    return run


def validation(options: Options, data: Path | None = None) -> Iterator[Row]:
    typical = _typical(data)
    size = median(len(sent) for sent in typical)
    parsed = [orjson.loads(sent)["document"] for sent in typical]
    plain, whole = judge_without("grounding"), judge_without()
    found = timed(
        {
            "floor": each(typical, floor),
            "plain": each(typical, plain.judge),
            "whole": each(typical, whole.judge),
            "jsonschema": each(parsed, lambda document: list(_PY.iter_errors(document))),
        },
        options,
    )
    bare = found["floor"]
    what = f"{len(typical)} real submissions of {size / 1000:.1f} KB"
    for said, name, goal in (("without", "plain", PLAIN_GOAL), ("with", "whole", GROUNDED_GOAL)):
        ratio = found[name] / bare
        yield Row(
            f"{what}, {said} grounding", _us(found[name]), _us(bare), f"{ratio:.2f}", f"≤ {goal:g}", ratio <= goal
        )
    for said, name, goal in (("without", "plain", RATE_GOAL), ("with", "whole", 0)):
        rate = 1 / found[name]
        met = rate >= goal if goal else None
        yield Row(
            f"the same, {said} grounding", f"{number(rate)}/s", goal=f"≥ {number(goal)}/s" if goal else "", met=met
        )
    alone = found["jsonschema"]
    what = "the same, without grounding, against `jsonschema` doing the schema part alone"
    yield Row(what, _us(found["plain"]), _us(alone), f"{found['plain'] / alone:.2f}")
    yield from _start(parsed[0])
    yield from _parts(typical, parsed, options)
    yield from _layers(typical, whole)
    yield from _grounding(options)
    yield from _linearity(options, plain, whole)


def _typical(data: Path | None) -> list[bytes]:
    """Return the submissions around the median length, among the payloads that the floor's model covers."""
    if data is None:
        found = documents.submissions()
    else:
        sent = data.read_bytes()
        lines = (gzip.decompress(sent) if data.suffix == ".gz" else sent).splitlines()
        found = [line for line in lines if orjson.loads(line).get("format") == "payload"]
    ordered = sorted(found, key=len)
    middle, half = len(ordered) // 2, TYPICAL // 2
    return ordered[max(0, middle - half) : middle + half]


def _start(document: Any) -> Iterator[Row]:
    """Measure a command from its start to its end, with all imports."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        file.write(orjson.dumps(document))
        file.flush()
        nothing = _command("-c", "pass")
        plain = _command("-m", "handoffaudit", "validate", file.name)
        counted = _command("-m", "handoffaudit", "validate", "--json", file.name)
    for said, took in (("validate", plain), ("validate --json", counted)):
        yield Row(
            f"`handoffaudit {said}` of one small file, the quickest of seven",
            f"{took:.2f} s",
            f"{nothing:.2f} s (Python alone)",
            f"{took / nothing:.1f}",
            f"≤ {START_GOAL:g} s",
            took <= START_GOAL,
        )


def _command(*arguments: str) -> float:
    took = []
    for _ in range(7):
        began = time.monotonic()
        subprocess.run([sys.executable, *arguments], check=False, cwd=places.ROOT, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
    return min(took)


def _parts(typical: list[bytes], parsed: list[Any], options: Options) -> Iterator[Row]:
    """Measure each part of the floor."""

    pairs = list(zip(typical, parsed, strict=True))

    def alone(work: Callable[[bytes, Any], Any]) -> Callable[[], int]:
        return each(pairs, lambda pair: work(*pair))

    found = timed({name: alone(work) for name, work in FLOOR.items()}, options)
    yield Row("of the floor", ", ".join(f"{name} {_us(found[name])}" for name in FLOOR))


def _layers(typical: list[bytes], judge: Judge) -> Iterator[Row]:
    """Report the median time of each layer from the verdicts, and of the work outside the layers."""
    spent: dict[str, list[float]] = {}
    for sent in typical * 5:
        began = time.perf_counter()
        _, verdict = judge.judge(sent)
        took = (time.perf_counter() - began) * 1000
        for layer in verdict.layers:
            spent.setdefault(layer.name, []).append(layer.duration_ms)
        spent.setdefault("all else", []).append(took - sum(layer.duration_ms for layer in verdict.layers))
    yield Row("of the pipeline", ", ".join(f"{name} {_us(median(ms) / 1000)}" for name, ms in spent.items()))


def _grounding(options: Options) -> Iterator[Row]:
    """Measure only the grounding layer: reading the sources, and looking up the claims."""
    judge = judge_without()
    layer = tuple(one for one in LAYERS if one.name == "grounding")
    sent = [long_documents.grounded(text_size=4096, context_size=8192, number=place) for place in range(20)]
    records = [take_apart(one).read().record for one in sent]

    def run() -> int:
        for record in records:
            if record is None:
                raise ValueError("the document can't be read")
            subject = judge.subject_of(record)
            pipeline.run(subject, validation_id="", now=_now, monotonic=time.perf_counter, layers=layer)
        return len(records)

    ms = timed({"grounding": run}, options)["grounding"] * 1000
    what = "grounding of a 4 KB handoff in 8 KB of context"
    yield Row(what, f"{ms:.2f} ms", goal=f"< {GROUNDING_MS_GOAL:g} ms", met=ms < GROUNDING_MS_GOAL)


def _linearity(options: Options, plain: Judge, whole: Judge) -> Iterator[Row]:
    sizes = (4, 64, 256, 1024)
    for what, make in long_documents.SHAPES.items():
        for said, judge in (("without", plain), ("with", whole)):
            costs = []
            for size in sizes:
                sent = long_documents.of_size(make, size * 1024)
                run = each(sent, judge.judge)
                run()
                rounds = sorted(_round(run, options.seconds / 50) for _ in range(3))
                costs.append(rounds[1] / (sum(map(len, sent)) / len(sent) / 1024))
            figure = ", ".join(f"{size} KiB: {_us(cost)}/KiB" for size, cost in zip(sizes, costs, strict=True))
            worst = max(costs) / costs[0]
            goal = f"dearest : {sizes[0]} KiB ≤ {LINEAR_GOAL:g}"
            yield Row(f"{what}, {said} grounding", figure, "", f"{worst:.2f}", goal, worst <= LINEAR_GOAL)


def _us(seconds: float) -> str:
    return f"{number(seconds * 1e6)} µs"


def _now() -> datetime:
    return datetime.now(UTC)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validation", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, metavar="FILE", help="real submissions, JSONL, .gz or not")
    parser.add_argument("--quick", action="store_true", help="short: shows that it works, not how fast")
    asked = parser.parse_args()
    rows = []
    for row in validation(QUICK if asked.quick else Options(), asked.data):
        print("  " + ", ".join(cell for cell in row.cells() if cell), file=sys.stderr, flush=True)
        rows.append(row)
    load = os.getloadavg()[0]
    print(f"{_now():%Y-%m-%d}: {os.cpu_count()} cores, Python {platform.python_version()}; load average {load:.1f}.\n")
    print(table(rows))


if __name__ == "__main__":
    main()
