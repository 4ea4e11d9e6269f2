"""Reader of a log with plain regular expressions: `python -m benchmarks.floor.log_patterns FILE`.

The command prints the seconds. Four patterns are tried on each line, those of the most common lines first. The reasons
and events of the lines are counted.
"""

import re
import sys
import time
from collections import Counter
from pathlib import Path

PATTERNS = (
    re.compile(rb"\[([^\]]+)\] \[([A-Z]+)\] \[([^\]]+)\] (.*)"),
    re.compile(rb'\{"trace_id": "([^"]+)".*"event_type": "([^"]+)"'),
    re.compile(rb"agent=(\S+) phase=\S+ source=(\S+)(?: reason=(\S+))? timestamp=(\S+)"),
    re.compile(rb"\S+ \| phase=(\S+) \| agent=(\S+) .*handoff_json=(\w+)"),
)


def main() -> None:
    began = time.perf_counter()
    counted: Counter[tuple[int, bytes | None]] = Counter()
    with Path(sys.argv[1]).open("rb") as file:
        for line in file:
            for form, pattern in enumerate(PATTERNS):
                found = pattern.match(line)
                if found:
                    counted[form, found[3 if form > 1 else 2]] += 1
                    break
            else:
                counted[-1, None] += 1
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main()
