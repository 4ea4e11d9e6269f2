"""Tests of the documentation of repair."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.formats import BY_NAME, FORMATS
from handoffaudit.validation.formats.base import RepairRules
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.library.models import RemediationPolicy
from handoffaudit.validation.paths import Location, dotted_path
from handoffaudit.validation.remediation import Facts, RemediationLog, decide
from handoffaudit.validation.repair import Means, budget_of, repair
from handoffaudit.validation.repair.by_model import LONGEST_DOCUMENT
from handoffaudit.validation.tokenizers import default_counter
from tests.validation.support import NOW, judge

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "repair.md").read_text()
FORMATS_PAGE = (DOCS / "formats.md").read_text()


def test_the_example_is_repaired_as_it_says() -> None:
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    document = json.loads(example[1])
    rejected = judge(document)
    assert "rejected for three errors" in PAGE
    assert len(rejected.issues) == 3
    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: "unused")
    found = repair(document, rejected, "payload", judge=judge, means=means)

    assert found.repaired is not None
    assert (found.repaired.number, found.repaired.verdict.outcome) == (1, "accepted")
    rows = [
        f"| `{change.field_path}` | {_shown(change.before)}| {_shown(change.after)}| {change.why} |"
        for change in found.repaired.changes
    ]
    table = PAGE.partition("| field | from | to | why |\n| --- | --- | --- | --- |\n")[2].partition("\n\n")[0]
    assert table.splitlines() == rows


def _shown(value: object) -> str:
    return "" if value is None else f"`{json.dumps(value)}` "


def test_what_is_dropped_is_listed_in_its_order() -> None:
    listed = PAGE.partition("removed, one after another:")[2].partition("The session is not lost")[0]
    assert re.findall(r"`([a-z_.]+)`", listed) == [
        dotted_path(place).removeprefix("handoff.") for place in BY_NAME["universal"].repair.compression.dropped
    ]


def test_the_fields_that_a_repair_keeps_or_shortens_are_listed() -> None:
    section = FORMATS_PAGE.partition("## Fields in repairs")[2]
    rows = re.findall(r"^\| `([a-z-]+)`[^|]*\| ([^|]+)\|([^|]+)\|([^|]+)\|$", section, re.MULTILINE)
    told = {name: [re.findall(r"`([^`]+)`", cell) for cell in cells] for name, *cells in rows}
    assert told == {form.name: [_names(places) for places in _repair_fields(form.repair)] for form in FORMATS}
    assert f"more than {LONGEST_DOCUMENT:,} characters" in PAGE


def _repair_fields(rules: RepairRules) -> tuple[tuple[Location, ...], ...]:
    shortened = (*rules.compression.texts, *rules.compression.prompts)
    return rules.protected, rules.protected_unless_faulty, shortened


def _names(places: tuple[Location, ...]) -> list[str]:
    return [dotted_path(place).removeprefix("handoff.") for place in places]


def test_the_actions_of_a_failure_without_end() -> None:
    told = re.search(r"therefore gets these actions: (.*)\.\n", PAGE)
    assert told is not None
    facts = Facts("v", passed=False, severities=frozenset({Severity.ERROR}))
    record: RemediationLog | None = None
    for expected in re.findall(r"`([a-z_]+)`", told[1]):
        action, record = decide(
            facts, record, policy=RemediationPolicy(), now=datetime(2026, 2, 1, tzinfo=UTC), new_id=lambda: "r"
        )
        assert action == expected
