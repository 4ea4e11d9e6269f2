"""Command that runs the benchmarks: `python -m benchmarks [NAME…] [--quick] [--write]`."""

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import report
from benchmarks.options import QUICK, Options

ALL = "all"
RESULTS = Path(__file__).parent / "results.md"


def main() -> None:
    from benchmarks.suites import SUITES

    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the product against its floor.")
    listed = ", ".join(SUITES)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"the measurements: {listed}; or all, which also writes them"
    )
    parser.add_argument("--quick", action="store_true", help="small and short: shows that it works, not how fast")
    parser.add_argument("--write", action="store_true", help="also replace benchmarks/results.md with the table")
    parser.add_argument("--rows", type=int, help="the larger number of handoffs for the pages")
    parser.add_argument("--by-server", action="store_true", help="let PostgreSQL make the rows of `pages`")
    parser.add_argument("--database", choices=["postgresql", "sqlite"], action="append", help="only this one")
    parser.add_argument("--filled", metavar="NAME", default="", help="PostgreSQL database to keep and use again")
    asked = parser.parse_args()
    if asked.names == [ALL]:
        asked.names, asked.write = [], True
    if unknown := set(asked.names) - set(SUITES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    options = replace(QUICK if asked.quick else Options(), filled=asked.filled, by_server=asked.by_server)
    if asked.rows:
        options = replace(options, rows=(options.rows[0], asked.rows))
    if asked.database:
        options = replace(options, databases=tuple(asked.database))
    # On SIGTERM, a run still ends the processes that it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    machine = report.machine()
    names = asked.names or list(SUITES)
    rows: list[report.Row] = []
    for number, name in enumerate(names, 1):
        began = time.monotonic()
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            for row in SUITES[name](options):
                print("  " + ", ".join(cell for cell in row.cells() if cell), file=sys.stderr, flush=True)
                rows.append(row)
        except Exception as error:  # noqa: BLE001 -- reported, and the run fails at its end
            # A suite that cannot run here, for example without Chromium, must not lose the figures of the other suites.
            traceback.print_exc()
            rows.append(report.Row(f"{name} failed", f"{type(error).__name__}: {error}".splitlines()[0][:200]))
        print(f"  took {time.monotonic() - began:.0f} s", file=sys.stderr)
        if asked.write:
            # A full run takes an hour or more, so the figures of a run that somebody stops must not be lost.
            _write_results(asked, f"{machine}\n\n{report.table(rows)}\n", names[number:])
    print(f"{machine}\n\n{report.table(rows)}\n")
    if any(row.what.endswith(" failed") for row in rows):
        sys.exit(1)


def _write_results(asked: argparse.Namespace, text: str, missing: Sequence[str]) -> None:
    what = " ".join(asked.names) or ALL
    how = "--quick: small and short, so that the figures only show that everything works" if asked.quick else "in full"
    rest = f" The run was stopped before: {', '.join(missing)}." if missing else ""
    RESULTS.write_text(f"# Results\n\nWritten by `python -m benchmarks {what}`, {how}.{rest} {text}")


if __name__ == "__main__":
    main()
