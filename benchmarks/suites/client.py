"""Benchmark of the Python client beside sentry-sdk and the OTLP exporter: cost, throughput, memory, and losses."""

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.options import Options
from benchmarks.places import ROOT
from benchmarks.report import Row, number

CLIENT = ROOT / "client"
OURS = "handoffaudit_client"
LIBRARIES = {OURS: "client", "sentry_sdk": "sentry-sdk", "opentelemetry": "OTLP exporter"}
OTHERS = ("sentry-sdk==2.75.*", "opentelemetry-sdk==1.45.*", "opentelemetry-exporter-otlp-proto-http==1.45.*")
IMPORTS = {
    "handoffaudit_client": "handoffaudit_client",
    "sentry_sdk": "sentry_sdk",
    "opentelemetry": "opentelemetry.exporter.otlp.proto.http.trace_exporter",
}
BURST = 10_000
STEADY = 3_000
PACE = 0.001
COST_GOAL = 500e-6
IMPORT_GOAL = 0.020
WHEEL_GOAL = 100_000
IMPORTED_TIMES = 15


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one program: seconds of each call, of all calls and of the flush, memory in KiB, and arrivals."""

    took: list[float]
    calls: float
    flush: float
    memory: int
    arrived: int

    def quantile(self, share: float) -> float:
        return sorted(self.took)[int(len(self.took) * share)]


class Bench:
    """An environment with the other libraries, and a sink; both are removed at the end."""

    def __init__(self, folder: Path, python: Path, url: str) -> None:
        self.folder = folder
        self.python = python
        self.url = url

    def start(self, library: str, items: int, pace: float = 0.0) -> "subprocess.Popen[str]":
        """Start a program that sends items and then waits for a line."""
        spool = self.folder / "spool"
        program = ROOT / "benchmarks" / "floor" / "library.py"
        return subprocess.Popen(
            [str(self.python), str(program), library, self.url, str(spool), str(items), str(pace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": str(CLIENT), "HOME": str(self.folder)},
        )

    def run(self, library: str, items: int, pace: float = 0.0) -> Run:
        self.forget()
        process = self.start(library, items, pace)
        out, _ = process.communicate("\n")
        if process.returncode:
            raise RuntimeError(f"{library} ended with {process.returncode}")
        took, calls, flush, memory = json.loads(out.splitlines()[1])
        return Run(took, calls, flush, memory, self.arrived())

    def kill(self, library: str, items: int) -> int:
        """Send items, kill the program at once, start it again, and return the number of items that arrived."""
        self.forget()
        process = self.start(library, items)
        read_line(process)
        process.kill()
        process.communicate()
        again = self.start(library, 1)
        deadline = time.monotonic() + 60
        # The figure is final when nothing more arrives.
        last = -1
        while last != (last := self.arrived()) and time.monotonic() < deadline:
            time.sleep(2)
        again.communicate("\n")
        return self.arrived()

    def arrived(self) -> int:
        with urllib.request.urlopen(f"{self.url}/marks") as answer:  # noqa: S310 (of this machine)
            return int(json.load(answer))

    def forget(self) -> None:
        request = urllib.request.Request(f"{self.url}/marks", method="DELETE")  # noqa: S310 (of this machine)
        urllib.request.urlopen(request).close()  # noqa: S310 (of this machine)

    def import_seconds(self, library: str) -> float:
        """Return the median time of the import in a bare interpreter."""
        code = (
            "import sys, time; sys.path[:0] = sys.argv[2:]; began = time.perf_counter(); __import__(sys.argv[1]);"
            "print(time.perf_counter() - began)"
        )
        packages = next((self.python.parents[1] / "lib").glob("python*/site-packages"))
        command = [str(self.python), "-I", "-S", "-c", code, IMPORTS[library], str(CLIENT), str(packages)]
        return median(
            float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            for _ in range(IMPORTED_TIMES)
        )


def read_line(process: "subprocess.Popen[str]") -> str:
    """Return the next line that a process prints."""
    return process.stdout.readline().strip() if process.stdout else ""


@contextmanager
def _bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="bench-client-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=False)
        python = folder / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        subprocess.run([*pip, *OTHERS], check=True)
        command = [sys.executable, "-m", "benchmarks.floor.sink"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as sink:
            try:
                yield Bench(folder, python, read_line(sink))
            finally:
                sink.terminate()


def client(_: Options) -> Iterator[Row]:
    """Run each library with its own defaults; the sink answers at once."""
    with _bench() as bench:
        steady = {name: bench.run(name, STEADY, PACE) for name in LIBRARIES}
        yield from _cost(steady)
        burst = {name: bench.run(name, BURST) for name in LIBRARIES}
        yield _throughput(burst)
        yield _memory(burst)
        lost = {name: BURST - bench.kill(name, BURST) for name in LIBRARIES}
        yield _row(f"of {BURST:,} sent, lost after `kill -9` and a new start", lost, "{:,}", 0)
        imports = {name: bench.import_seconds(name) for name in LIBRARIES}
        yield _row("import, ms", {name: one * 1e3 for name, one in imports.items()}, "{:.1f}", IMPORT_GOAL * 1e3)
    size = _wheel_bytes()
    yield Row(
        "wheel of the client", f"{size / 1e3:.0f} kB", goal=f"≤ {WHEEL_GOAL / 1e3:.0f} kB", met=size <= WHEEL_GOAL
    )


def _cost(runs: dict[str, Run]) -> Iterator[Row]:
    for share, goal in ((0.5, None), (0.99, COST_GOAL * 1e6)):
        figures = {name: run.quantile(share) * 1e6 for name, run in runs.items()}
        yield _row(f"`send` of 2 KB, 1,000 a second, p{share * 100:.0f} in µs", figures, "{:.0f}", goal)


def _throughput(runs: dict[str, Run]) -> Row:
    told = {
        name: f"{number(run.arrived / (run.calls + run.flush))}/s, {run.arrived:,} arrived"
        for name, run in runs.items()
    }
    return Row(f"client: {BURST:,} at once, with a flush", told[OURS], _others(told))


def _memory(runs: dict[str, Run]) -> Row:
    return _row(
        f"more memory for {BURST:,} at once, MiB", {name: run.memory / 1024 for name, run in runs.items()}, "{:.1f}"
    )


def _row(what: str, figures: Mapping[str, float], form: str, goal: float | None = None) -> Row:
    told = {name: form.format(figure) for name, figure in figures.items()}
    met = None if goal is None else figures[OURS] <= goal
    return Row(f"client: {what}", told[OURS], _others(told), "", "" if goal is None else f"≤ {goal:g}", met)


def _others(told: Mapping[str, str]) -> str:
    return "; ".join(f"{told[name]} ({library})" for name, library in LIBRARIES.items() if name != OURS)


def _wheel_bytes() -> int:
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder]
        subprocess.run(build, cwd=CLIENT, check=True, capture_output=True)
        return next(Path(folder).glob("*.whl")).stat().st_size
