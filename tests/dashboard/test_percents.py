"""Tests of the one format of percentages, `61.8 %`; the compliance report keeps its own format."""

import re
from pathlib import Path

import pytest

from handoffaudit.dashboard.templatetags.formats import describe_change, format_share, whole_percent
from handoffaudit.handoffs.rates import Share, ShareChange

ROOT = Path(__file__).parents[2]
CLOSE = re.compile(r"(?:\}\}|\{% endif %\})%|\d%(?![\"; ])|:[\d.]*%\}|\.change\.(?:now|before) \}\}|\.share \}\}")
# A bar's width in SVG, and what the compliance report says.
ELSEWHERE = {"handoffaudit/dashboard/templatetags/ui.py", "handoffaudit/handoffs/rates.py"}
SPOKEN = [
    path
    for path in sorted([*ROOT.glob("templates/**/*.html"), *ROOT.glob("handoffaudit/**/*.py")])
    if str(path.relative_to(ROOT)) not in ELSEWHERE
]


def test_no_percent_stands_close_to_its_number() -> None:
    assert len(SPOKEN) > 100
    lines = [(str(path.relative_to(ROOT)), line) for path in SPOKEN for line in path.read_text().splitlines()]
    assert [(path, line) for path, line in lines if CLOSE.search(line) and "`" not in line] == []


def test_a_share_is_written_so_wherever_it_is_told() -> None:
    assert format_share(Share(1199, 1200)) == "1,199/1,200 (99.9 %)"
    assert 'title="Before: 1/2 (50.0 %)' in describe_change(ShareChange(Share(2, 2), Share(1, 2)))
    assert str(Share(199, 200)) == "199/200 (99.5%)", "the compliance report, to the letter"


@pytest.mark.parametrize(
    ("part", "total", "shown"),
    [(1999, 2000, "99 %"), (2000, 2000, "100 %"), (1, 2000, "1 %"), (0, 2000, "0 %"), (151, 200, "76 %")],
)
def test_a_whole_percentage_is_100_only_for_all(part: int, total: int, shown: str) -> None:
    assert whole_percent(Share(part, total)) == shown
