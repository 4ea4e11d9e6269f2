"""Print the coverage of lines and branches in one line: `python coverage_line.py coverage.json`."""

import json
import sys
from pathlib import Path

totals = json.loads(Path(sys.argv[1]).read_text())["totals"]
lines = 100 * totals["covered_lines"] / totals["num_statements"]
branches = 100 * totals["covered_branches"] / totals["num_branches"]
sys.stdout.write(f"coverage: {lines:.1f} % of lines, {branches:.1f} % of branches\n")
