"""Tests of where a wrong value was introduced in a trace, and who inherited it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation import provenance
from handoffaudit.validation.provenance import Flaw, Step, attribute, find_tainted
from tests.elapsed import grows_linearly
from tests.scale import examples


def step(data: str, *flaws: Flaw, source: str = "writer", context: str = "", brings: bool = False) -> Step:
    return Step("key", source, "critic", data, context, flaws, brings)


def wrong(value: str, code: str = "grounding.number", path: str = "data.text") -> Flaw:
    return Flaw(code, path, value)


def test_a_value_that_is_wrong_where_it_first_stands_was_caused_there():
    found = attribute([step("All is well."), step("It costs 999 EUR.", wrong("999")), step("Fine.")])
    assert [(one.step, one.caused, one.origin, one.carriers) for one in found] == [(1, True, 1, ())]


def test_who_repeats_a_value_passes_it_on_and_is_tainted():
    steps = [
        step("It costs 1,200 EUR.", wrong("1,200")),
        step("So 1200 in all.", wrong("1200"), source="critic"),
        step("Nothing of the kind."),
        step("Pay 1.2k now."),
    ]
    first, second = found = attribute(steps)
    assert (first.caused, first.origin, first.carriers) == (True, 0, (1, 3))
    assert (second.caused, second.origin, second.carriers) == (False, 0, (1, 3))
    assert find_tainted(steps, found) == {1: ("1,200", "1200"), 3: ("1,200", "1200")}


def test_the_first_step_with_the_value_is_its_origin_though_nothing_was_found_there():
    one = attribute([step("It was founded in 1871."), step("In 1871.", wrong("1871"), source="critic")])[0]
    assert (one.caused, one.origin, one.from_outside) == (False, 0, False)


def test_who_repeats_its_own_value_caused_it_again_unless_it_came_from_outside():
    own = [step("It was founded in 1871."), step("In 1871 it began.", wrong("1871"))]
    assert [(one.caused, one.origin) for one in attribute(own)] == [(True, 0)]
    told = [step("It was founded in 1871.", context="since 1871"), own[1]]
    assert [(one.caused, one.origin) for one in attribute(told)] == [(False, 0)]


def test_two_without_a_name_are_not_one_agent():
    nameless = [step("In 1871.", source=""), step("In 1871.", wrong("1871"), source="")]
    assert not attribute(nameless)[0].caused


def test_what_a_person_or_a_tool_brought_came_from_outside_and_taints_nothing():
    steps = [step("Order 4711.", brings=True), step("Order 4711 is late.", wrong("4711"))]
    found = attribute(steps)
    assert (found[0].origin, found[0].caused, found[0].from_outside) == (0, False, True)
    assert find_tainted(steps, found) == {}


def test_what_the_first_step_was_given_came_from_outside():
    steps = [step("Order 4711.", context="order: 4711"), step("Order 4711 is late.", wrong("4711"))]
    assert attribute(steps)[0].from_outside


def test_what_was_found_wrong_at_its_origin_is_an_invention_also_with_the_value_in_a_context():
    steps = [step("Room 4711.", wrong("4711"), context="order 4711"), step("Room 4711!", wrong("4711"))]
    assert [one.from_outside for one in attribute(steps)] == [False, False]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("12", "There are 120 of them."),
        ("12", "There are 312, or 12.5."),
        ("Anna", "Annabel wrote it."),
        ("12 March 2024", "On 12 March 2023, and on 13 March 2024."),
        ("new order", "A new one, in order."),
        ("10:30", "At 10:31."),
    ],
)
def test_another_value_is_not_taken_for_it(value, text):
    assert attribute([step(text), step(f"Told: {value}", wrong(value))])[0].origin == 1


def test_a_day_of_another_year_is_another_value_also_where_both_are_wrong():
    steps = [step("On 2024-03-01.", wrong("2024-03-01")), step("On 2023-03-01.", wrong("2023-03-01"))]
    assert [(one.caused, one.origin) for one in attribute(steps)] == [(True, 0), (True, 1)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1,200", "about 1200 of them"),
        ("1.2 million", "1,200,000 people"),
        ("54%", "54 percent of all"),
        ("seventeen", "17 of them"),
        ("17", "seventeen of them"),
        ("12 March 2024", "on 2024-03-12, at noon"),
        ("12 March 2024", "on March 12"),
        ("March 12", "on 12 March 2024"),
        ("2 PM", "at 14:00"),
        ("Jos\u00e9 Peeters", "Mr JOSE PEETERS' house"),
        ("https://example.org/a?b=1", "see https://example.org/a?b=1."),
        ("INV-20-17", "the invoice inv-20-17"),
        ("the quick  brown", "It was The Quick brown fox."),
    ],
)
def test_a_value_is_recognised_however_it_is_written(value, text):
    assert attribute([step(text), step(f"Told: {value}", wrong(value))])[0].origin == 0


@pytest.mark.parametrize(("value", "text"), [("17", "on 2024-07-17"), ("17", "since v3.17"), ("3", "v3 is out")])
def test_a_figure_inside_a_date_or_a_version_is_another_value(value, text):
    assert attribute([step(text), step(f"Told: {value}", wrong(value))])[0].caused


def test_the_year_of_a_date_is_held_by_it():
    assert attribute([step("on 2024-07-17"), step("Told: 2024", wrong("2024"))])[0].origin == 0


def test_findings_without_a_value_go_back_to_the_first_of_their_kind():
    steps = [
        step("", Flaw("structure.type", "data.items[0].price")),
        step("", Flaw("structure.type", "data.items[3].price"), Flaw("structure.type", "data.name"), source="critic"),
    ]
    found = attribute(steps)
    assert [(one.step, one.caused, one.origin) for one in found] == [(0, True, 0), (1, False, 0), (1, True, 1)]
    assert found[0].carriers == (1,)
    assert find_tainted(steps, found) == {}


@pytest.mark.parametrize("value", ["", "999"])
def test_equal_findings_of_a_trace_share_their_carriers(value):
    flaws = [Flaw("grounding.number", f"data.items[{at}]", value) for at in range(3)]
    found = attribute([step("It costs 999 EUR.", *flaws) for _ in range(5)])
    assert {one.carriers for one in found} == {(1, 2, 3, 4)}
    # With 1,000 steps, copies of the steps would take gigabytes.
    assert len({id(one.carriers) for one in found}) == 1


def test_values_beyond_the_limit_are_no_values_of_other_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(provenance, "MOST_VALUES", 1)
    steps = [step(f"It costs {value} EUR.", wrong(value)) for value in ("998", "999", "1000")]
    found = attribute(steps)
    assert [(one.flaw.value, one.origin, one.carriers) for one in found] == [
        ("998", 0, ()),
        ("", 0, (1, 2)),
        ("", 0, (1, 2)),
    ]
    assert find_tainted(steps, found) == {}


def test_a_value_without_anything_to_search_for_taints_no_other_step():
    steps = [step("“§§” it is.", wrong("§§")), step("“¶¶” it is.", wrong("¶¶"))]
    assert find_tainted(steps, attribute(steps)) == {}


def test_no_steps_have_no_findings():
    assert attribute([]) == []
    assert find_tainted([], []) == {}


_TEXTS = st.text(max_size=60) | st.sampled_from(
    ["12", "1,2", "1.200,5", "March 3", "3/4/2024", "7 pm", "Anna B", "\ud800", "9" * 400]
)
_FLAWS = st.builds(Flaw, st.sampled_from(["a.b", "c.d"]), st.sampled_from(["x", "x[1]", "x[2]"]), _TEXTS)
_STEPS = st.builds(
    Step, st.just("k"), _TEXTS, _TEXTS, _TEXTS, _TEXTS, st.lists(_FLAWS, max_size=3).map(tuple), st.booleans()
)


@settings(max_examples=examples(50))
@given(st.lists(_STEPS, max_size=8))
def test_whatever_comes_every_finding_has_an_origin_not_after_it(steps):
    found = attribute(steps)
    assert [one.flaw for one in found] == [flaw for step in steps for flaw in step.flaws]
    for one in found:
        assert 0 <= one.origin <= one.step
        assert one.caused or one.origin < one.step
        own = bool(steps[one.step].source) and steps[one.origin].source == steps[one.step].source
        assert one.caused == (one.origin == one.step or (own and not one.from_outside))
        assert all(one.origin < at < len(steps) for at in one.carriers)
        assert one.caused or one.step in one.carriers
        assert list(one.carriers) == sorted(set(one.carriers))
    assert all(0 < at < len(steps) for at in find_tainted(steps, found))


@settings(max_examples=30)
@given(st.lists(_STEPS, max_size=6), st.lists(_STEPS, max_size=3))
def test_what_comes_later_changes_no_origin(steps, later):
    before = [(one.step, one.origin, one.from_outside) for one in attribute(steps)]
    after = [(one.step, one.origin, one.from_outside) for one in attribute([*steps, *later])]
    assert after[: len(before)] == before


def _trace(size: int):
    words = " ".join(f"word{number} {number} Name{number} 3 March {1900 + number}" for number in range(size))
    flaws = tuple(wrong(str(number)) for number in range(0, size, 4))
    steps = [step(words, *flaws, context=words) for _ in range(4)]
    return lambda: attribute(steps)


def test_the_work_grows_with_the_length_of_the_trace():
    assert grows_linearly(_trace, 60)


def _one_word_over_and_over(size: int):
    steps = [step("a " * size, wrong("a " * 16), wrong("a a a b"))]
    return lambda: attribute(steps)


def test_the_work_grows_with_the_length_also_of_hostile_text():
    assert grows_linearly(_one_word_over_and_over, 400)
