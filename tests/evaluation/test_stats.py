"""Tests of the statistics of labelled data, by hand-counted examples."""

import json
from dataclasses import replace

import pytest

from handoffaudit.evaluation.judge import AS_SHIPPED
from handoffaudit.evaluation.stats import Characters, Cluster, Tally, measure, ratio_interval, wilson_interval
from handoffaudit.policy.rules import parse_sets
from tests.evaluation.support import grounded, judge_of, measured, reviewed


def test_each_item_counts_by_its_label():
    figures = measured(
        reviewed("approved"),
        reviewed("declined", target_agent_id="a"),
        reviewed("declined"),
        reviewed("approved", target_agent_id="a"),
        reviewed("declined", target_agent_id="a"),
        layers=("chain",),
    ).figures()
    assert figures["kind"] == "reviews"
    assert (figures["items"], figures["faulty"], figures["sound"]) == (5, 3, 2)
    assert (figures["flagged"], figures["flagged_faulty"], figures["flagged_sound"]) == (3, 2, 1)
    assert figures["precision"] == pytest.approx(2 / 3)
    assert figures["recall"] == pytest.approx(2 / 3)
    assert figures["balanced_accuracy"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert figures["codes"]["chain.self_handoff"] == {"faulty": 2, "sound": 1}


def test_skipped_items_count_among_all_and_not_among_the_judged():
    unsourced = {**grounded("It costs 999 EUR.", hallucinated=False), "context": {}}
    figures = measured(
        grounded("The order costs 999 EUR.", hallucinated=True),
        grounded("The order costs 999 EUR.", hallucinated=False),
        grounded('{"cost": 999}', hallucinated=False),
        unsourced,
    ).figures()
    every, judged = figures["flagged_shares"]["all"], figures["flagged_shares"]["judged"]
    assert (figures["items"], figures["judged"]) == (4, 2)
    assert (every["sound"]["share"], every["ratio"]) == (pytest.approx(1 / 3), pytest.approx(3))
    assert (judged["sound"]["share"], judged["ratio"]) == (1, 1)


def test_intervals_of_shares_are_those_of_wilson():
    # The values are from Newcombe (1998), Statistics in Medicine 17, 857-872, Table I.
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson_interval(0, 20) == pytest.approx((0, 0.1611), abs=1e-4)
    assert wilson_interval(0, 0) is None


def test_the_interval_of_a_ratio_widens_if_items_come_in_clusters():
    flagged_faulty, passed_faulty = Cluster(faulty=1, flagged_faulty=1), Cluster(faulty=1)
    flagged_sound, passed_sound = Cluster(sound=1, flagged_sound=1), Cluster(sound=1)
    single = [flagged_faulty] * 30 + [passed_faulty] * 10 + [flagged_sound] * 10 + [passed_sound] * 30
    low, high = ratio_interval(single)
    # The usual log method: exp(log(3) ± 1.96 * sqrt(1/30 - 1/40 + 1/10 - 1/40)), apart from the factor 80 / 79.
    assert (low, high) == pytest.approx((1.70, 5.28), abs=0.03)
    wide = ratio_interval(
        [
            Cluster(faulty=10, flagged_faulty=10 * (number < 3), sound=10, flagged_sound=10 * (number < 1))
            for number in range(4)
        ]
    )
    assert wide[0] < low
    assert wide[1] > high
    assert ratio_interval([flagged_faulty, passed_sound]) is None
    assert ratio_interval([Cluster(faulty=2, flagged_faulty=1, sound=2, flagged_sound=1)]) is None


def test_spans_count_by_characters_over_all_texts():
    counted = Characters()
    counted.add(marked=[(0, 4), (2, 6)], labelled=[(3, 9)])
    counted.add(marked=[], labelled=[(0, 4)])
    counted.add(marked=[(1, 3)], labelled=[])
    assert (counted.both, counted.marked, counted.labelled) == (3, 8, 10)
    figures = Tally(items=3, characters=counted).figures()
    assert (figures["span_precision"], figures["span_recall"]) == (3 / 8, 3 / 10)
    assert figures["span_f1"] == pytest.approx(2 * (3 / 8) * (3 / 10) / (3 / 8 + 3 / 10))


def test_marks_of_the_labelled_text_are_what_spans_are_held_against():
    found = grounded("The order costs 999 EUR.", hallucinated=True, spans=[(16, 19)])
    assert measured(found).figures()["span_recall"] == 1


def test_without_labels_of_spans_there_are_no_span_figures():
    figures = measured(grounded("The order costs 999 EUR.", hallucinated=True)).figures()
    assert (figures["span_precision"], figures["span_recall"], figures["span_f1"]) == (None, None, None)
    assert figures["balanced_accuracy"] is None


def test_the_label_is_never_shown_to_a_layer():
    honest = grounded("It was delivered by Petrova Logistics.", hallucinated=False, note="Petrova Logistics")
    accused = grounded("It was delivered by Petrova Logistics.", hallucinated=True, note="Petrova Logistics")
    figures = measured(honest, accused).figures()
    assert figures["flagged_faulty"] == figures["flagged_sound"] == 1


def test_broken_lines_are_left_out_and_told():
    bad_spans = grounded("The order costs 999 EUR.", hallucinated=True) | {"spans": [{"start": "x"}]}
    result = measured(b"{", [1], {"a": 1}, bad_spans, grounded("The order costs 240 EUR.", hallucinated=False))
    assert result.unread_lines == 4
    assert result.tally.items == 1
    assert [text.partition(":")[0] for text in result.unread] == [
        "line 1 is not JSON",
        "line 2 is not labelled data of a known kind",
        "line 3 is not labelled data of a known kind",
        "line 4 cannot be used",
    ]


def test_the_wrongly_judged_are_kept_to_be_read():
    wrong = measured(
        reviewed("declined"),
        reviewed("declined", target_agent_id="a"),
        reviewed("approved", target_agent_id="a"),
        reviewed("approved", target_agent_id="a"),
        layers=("chain",),
        show=2,
    ).wrong
    assert [(one.item.label.faulty, one.flagged) for one in wrong] == [(True, False), (False, True)]


def test_the_time_is_that_of_the_pipeline():
    # The clock ticks a second at each look: at the beginning and the end, and inside the pipeline.
    figures = measured(grounded("The order costs 240 EUR.", hallucinated=False)).figures()
    assert figures["ms_per_item"] == 5000


def test_an_unknown_layer_is_told():
    with pytest.raises(ValueError, match="There is no layer 'taste': choose from structure, tokens"):
        judge_of("taste")


def test_rules_of_ones_own_can_be_measured():
    rules = parse_sets(
        [{"set_id": "own", "name": "own", "rules": [
            {"rule_id": "cheap", "name": "cheap", "rule_type": "range", "field": "price", "operator": "lt",
             "threshold": 100}]}]
    )  # fmt: skip
    line = reviewed("declined", data={"price": 240})
    config = replace(AS_SHIPPED, rules=rules)
    judged = judge_of("rules", config=config)
    result = measure([(1, json.dumps(line).encode())], judged, beside=lambda name: None)
    assert result.figures()["codes"] == {"business_rule.range.cheap": {"faulty": 1}}
