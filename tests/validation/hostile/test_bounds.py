"""Tests of the cost of a hostile document: time in proportion to its size, bounded memory, a bounded verdict."""

import tracemalloc
from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import orjson
import pytest

from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet, BusinessRuleType, Operator
from handoffaudit.validation.config import Requirements
from handoffaudit.validation.formats import BY_NAME, read
from handoffaudit.validation.json_text import MAX_DEPTH, parse_json
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.rule_evaluation import broken_rules
from handoffaudit.validation.verdict import verdict_to_dict
from tests.elapsed import BOUNDED, cpu_seconds, grows_linearly
from tests.scale import LARGE, NIGHTLY, cases, size

from ..support import payload
from .bombs import BOMBS
from .documents import MIB, PIECES, WAYS, Submission, strictest

SMALL, FACTOR = 64 * 1024, 8
# By day growth is measured from an eighth of the size, and from a quarter for inputs whose limits come later.
GROWTH_FROM = SMALL if NIGHTLY else SMALL // 8
LATE_LIMITS = {
    *("dates and days", "dates against dates", "numbers in order", "identifiers unknown", "values unknown"),
    "numbers in many",
}
# The layers stop at a limit for these inputs, so their growth is measured below the limit.
SOON_GIVEN_UP = ("orders in prose", "new words in prose", "quotes unknown")
# The layers compare each with each in these inputs, so their time has a bound instead.
EACH_AGAINST_EACH = [
    f"{name} in many" for name in ("different words", "negations", "assumptions", "number words", "quoted words")
]
# Two to seven seconds each.
SLOWEST = {
    *("different numbers in many", "quotes unknown", "rules over wide data", "quoted words in many"),
    *("rule of stars", "rule of all pairs", "negations in many"),
}
MOST_MEMORY = 80
MEMORY_OF_ANY = 64 * MIB
LARGEST_VERDICT = 3 * MIB


def _way(way: str, name: str) -> Callable[[int], Submission]:
    return lambda size: WAYS[way](name, size)


ALL: dict[str, Callable[[int], Submission]] = {
    **BOMBS,
    **{f"{name} in {way}": _way(way, name) for way in WAYS for name in PIECES},
}
# The slowest inputs for their size, and the largest in memory or in their verdict.
WORST = [
    *("rules over wide data", "numbers in order", "identifiers unknown", "dates and days"),
    *("chain of one", "chain of agents", "names unknown", "mentions of parties", "schema of a large enum"),
    *("many tables", "wide table", "items of evidence", "keys", "large numbers"),
    *("quoted words in many", "Arabic digits in many", "digits and commas in many", "csv in both", "yaml in context"),
    *("surrogates in data", "different names in both", "colons in context", "NUL in many"),
]
# One of each kind: agents, names, tables, schemas, keys, numbers, signs that are not text.
WORST_BY_DAY = {
    *("chain of agents", "names unknown", "wide table", "schema of a large enum", "keys", "Arabic digits in many"),
    "surrogates in data",
}


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    """Load everything that is loaded once: a tokenizer, lexicons, compiled schemas."""
    for name in ("quoted words in many", "csv in both", "references", "schema of a pattern", "mixed in data"):
        strictest(ALL[name](SMALL))


# Each piece in one of the ways.
GROWING_BY_DAY = {*BOMBS, *(f"{name} in {way}" for name, way in zip(PIECES, cycle(WAYS), strict=False))} - SLOWEST


@pytest.mark.parametrize("name", cases(ALL, GROWING_BY_DAY))
def test_eight_times_as_much_takes_about_eight_times_as_long(name: str) -> None:
    # Some checks begin to give up between the two sizes: for these, only growth from the full size is linear.
    first = size(SMALL) if name in LATE_LIMITS else GROWTH_FROM
    sizes = [small // 2 if name in SOON_GIVEN_UP else small for small in (first, SMALL)]
    assert any(grows_linearly(lambda size: partial(strictest, ALL[name](size)), small, FACTOR) for small in sizes)


@pytest.mark.parametrize("name", cases(EACH_AGAINST_EACH, EACH_AGAINST_EACH[:1]))
def test_what_is_tried_each_against_each_has_a_bound(name: str) -> None:
    assert cpu_seconds(partial(strictest, ALL[name](MIB // 4))) < BOUNDED


@pytest.mark.parametrize("name", cases(WORST, WORST_BY_DAY))
def test_a_verdict_on_a_large_document_is_bounded(name: str) -> None:
    sent = ALL[name](LARGE)
    verdict = verdict_to_dict(strictest(sent))
    assert len(orjson.dumps(verdict)) <= LARGEST_VERDICT
    assert len(verdict["claims"]) <= 500
    assert sum(len(claim["values"]) for claim in verdict["claims"]) <= 10_000
    by_layer = [issue["code"].partition(".")[0] for issue in verdict["issues"]]
    assert max(by_layer.count(one) for one in {*by_layer, ""}) <= 202


@pytest.mark.parametrize(
    "name", cases((name for name in WORST if name not in ("numbers in order", "rules over wide data")), WORST_BY_DAY)
)
def test_memory_is_bounded_by_the_size(name: str) -> None:
    sent = ALL[name](MIB // 4)
    tracemalloc.start()
    try:
        strictest(sent)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= MOST_MEMORY * MIB // 4 + MEMORY_OF_ANY


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 1000, 100_000])
def test_nesting_is_read_to_its_limit_and_refused_beyond(levels: int) -> None:
    value, issues = parse_json(nested(levels))
    assert (value is not None) is (levels <= MAX_DEPTH)
    assert [issue.code for issue in issues] == ([] if levels <= MAX_DEPTH else ["structure.json_parse"])


@pytest.mark.parametrize("form", [None, *BY_NAME])
@pytest.mark.parametrize("levels", [MAX_DEPTH, 5_000, 100_000])
def test_what_another_parser_read_is_refused_beyond_the_limit(form: str | None, levels: int) -> None:
    document: Any = {"a": 1}
    for _ in range(levels):
        document = {"data": document}
    reading = read(document, form, Envelope())
    assert [issue.code for issue in reading.issues] == ["structure.json_parse"]


@pytest.mark.parametrize(
    ("number", "is_read"),
    [(b"1e400", False), (b"-1e400", False), (b"1e-400", True), (b"9" * 100, True), (b"9" * 100_000, False)],
    ids=["1e400", "-1e400", "1e-400", "100 digits", "100,000 digits"],
)
def test_numbers_are_read_or_refused_with_their_place(number: bytes, is_read: bool) -> None:
    value, issues = parse_json(b'{"a": 1,\n"b": ' + number + b"}")
    assert (value is not None) is is_read
    assert [issue.metadata["line"] for issue in issues] == ([] if is_read else [2])


@pytest.mark.parametrize("number", [10**400, -(10**4_000), 1.7e308, 2**64], ids=["10^400", "-10^4000", "float", "2^64"])
@pytest.mark.parametrize("place", ["data", "confidence", "timestamp", "handoff_type", "call_chain"])
def test_huge_numbers_of_another_parser_come_to_a_verdict(place: str, number: float) -> None:
    document = payload(**{place: {"a": number, "b": "about 17"} if place == "data" else number})
    verdict = strictest(Submission(document, {"a": number}, [{"source": "s", "content": {"v": number}}]))
    assert len(orjson.dumps(verdict_to_dict(verdict))) < 20_000


@pytest.mark.parametrize("field", ["source_agent_id", "target_agent_id", "handoff_type", "handoff_id", "tenant_id"])
def test_long_names_are_refused_and_cut(field: str) -> None:
    verdict = strictest(Submission(payload(**{field: "n" * MIB})))
    assert "structure.too_long" in [issue.code for issue in verdict.issues]
    assert len(orjson.dumps(verdict_to_dict(verdict))) < 20_000


def rule(**given: Any) -> BusinessRule:
    return BusinessRule(rule_id="r", name="Prices", **{"rule_type": BusinessRuleType.RANGE, **given})


def test_a_rule_over_too_much_fails_and_says_so() -> None:
    many = rule(field="v.*", compare_field="w.*", operator=Operator.LT)
    later = rule(field="v[0]", threshold=5, operator=Operator.LT)
    sets = [("s", many), ("s", later)]
    first, second = broken_rules(sets, {"v": [1] * 2_000, "w": [2] * 2_000})
    assert first.message == "Prices: v could not be judged: there is too much to compare."
    assert "could not be judged" in second.message


def test_rules_over_a_hundred_thousand_values_are_judged_in_full() -> None:
    (broken,) = broken_rules([("s", rule(field="v.*", threshold=5, operator=Operator.LT))], {"v": [1] * 99_999 + [7]})
    assert broken.location == ("v", 99_999)


@pytest.mark.parametrize(
    "path",
    [".".join(["a"] * 10_000), "*." * 5_000 + "a", "a" * 10_000, "[0]" * 10_000, ""],
    ids=["names", "stars", "name", "positions", "empty"],
)
def test_a_path_without_end_fails_its_rule(path: str) -> None:
    sets = (BusinessRuleSet(set_id="s", name="s", rules=[rule(field=path, operator=Operator.LT, threshold=1)]),)
    verdict = strictest(Submission(payload(), demands=Requirements(rules=sets)))
    (issue,) = (issue for issue in verdict.issues if issue.layer == "rules")
    assert "cannot be looked up" in issue.message
    assert len(issue.message) < 400


def test_what_was_left_out_is_noted() -> None:
    notes = {layer.name: layer.why for layer in strictest(ALL["dates and days"](size(LARGE))).layers}
    assert "not checked" in notes["grounding"]
    notes = {layer.name: layer.why for layer in strictest(ALL["numbers in order"](size(LARGE))).layers}
    assert "only the first" in notes["grounding"]
