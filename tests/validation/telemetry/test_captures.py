"""The handoffs of real runs are found, and no others."""

import random
from typing import Any

import pytest

from handoffaudit.validation.telemetry.handoff_rules import Found, find_in
from handoffaudit.validation.telemetry.otlp import JSON, PROTOBUF, read_export
from handoffaudit.validation.telemetry.trees import Tree
from tests.validation.telemetry.support import CAPTURES, RUNS, bodies, spans_of


def shown(found: list[Found]) -> list[Any]:
    return [(one.span.span_id, one.rule, one.source, one.target, one.data, one.inferred) for one in found]


def test_every_capture_has_a_row() -> None:
    files = {path.name.removesuffix(".otlp.pb.gz") for path in CAPTURES.glob("*.pb.gz")}
    assert {name.rstrip("-0123456789") if "claude" in name else name for name in files} == RUNS.keys()


@pytest.mark.parametrize("run", RUNS)
def test_the_handoffs_of_a_run_are_found_and_no_others(run: str) -> None:
    ends, payloads = RUNS[run]
    found = find_in(Tree(spans_of(run)))
    assert [(one.source, one.target) for one in found] == ends
    assert len([one for one in found if one.data]) == payloads
    assert not [one for one in found if one.is_open]


def test_both_ends_of_71_of_75_handoffs_and_a_payload_of_28_are_found() -> None:
    found = [one for run in RUNS for one in find_in(Tree(spans_of(run)))]
    assert len(found) >= 71
    assert len([one for one in found if one.data]) >= 28


@pytest.mark.parametrize("run", RUNS)
def test_doubled_and_shuffled_spans_give_the_same_handoffs(run: str) -> None:
    spans = spans_of(run)
    others = spans * 2
    random.Random(17).shuffle(others)  # noqa: S311 -- no secret
    assert shown(find_in(Tree(others))) == shown(find_in(Tree(spans)))


def test_runs_of_one_conversation_do_not_change_each_other() -> None:
    """Several of the runs name the same conversation, so their spans are looked at together."""
    alone = [row for run in RUNS for row in shown(find_in(Tree(spans_of(run))))]
    together = shown(find_in(Tree([span for run in RUNS for span in spans_of(run)])))
    assert sorted(map(str, together)) == sorted(map(str, alone))


@pytest.mark.parametrize("run", [path.name.split(".otlp")[0] for path in sorted(CAPTURES.glob("*.json.gz"))])
def test_json_gives_the_same_spans_as_protobuf(run: str) -> None:
    read = {kind: read_export(bodies(run, kind)[0], type_).spans for kind, type_ in (("pb", PROTOBUF), ("json", JSON))}
    assert read["pb"] == read["json"]
    assert read["pb"]


def test_nothing_is_settled_that_a_missing_span_would_change() -> None:
    """Some of the spans of a run give, among what they call settled, only handoffs of the whole run."""
    chance = random.Random(3)  # noqa: S311 -- no secret
    for run in RUNS:
        spans = spans_of(run)
        whole = {str(one) for one in shown(find_in(Tree(spans)))}
        for _ in range(10):
            some = chance.sample(spans, chance.randint(1, len(spans)))
            settled = [one for one in find_in(Tree(some)) if one.is_settled]
            assert {str(one) for one in shown(settled)} <= whole, run


def test_prompts_are_left_out_of_the_facts() -> None:
    for run in RUNS:
        for span in spans_of(run):
            assert "You are a helpful AI assistant" not in str(span.facts), (run, span.name)
