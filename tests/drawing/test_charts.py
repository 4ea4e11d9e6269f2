"""Tests of bars over time and of the token budget, as images and as tables."""

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from handoffaudit.drawing.charts import Bar, Section, draw_stacked_bars, draw_token_sections
from handoffaudit.drawing.svg import Drawing

SVG = "{http://www.w3.org/2000/svg}"
ORDER = ("accepted", "held", "rejected")


def parsed(drawing: Drawing) -> ET.Element:
    return ET.fromstring(drawing.svg)  # noqa: S314 - our own


def with_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if name in element.get("class", "").split()]


def number(element: ET.Element, attribute: str) -> float:
    return float(element.get(attribute, "nan"))


BARS = [
    Bar("09:00", "1 Feb 09:00", {"accepted": 30, "rejected": 10}, "/t/acme/handoffs/?since=1&until=2"),
    Bar("10:00", "1 Feb 10:00", {}),
    Bar("11:00", "1 Feb 11:00", {"accepted": 5, "held": 5}),
]


def test_parts_are_stacked_in_proportion_and_in_order() -> None:
    root = parsed(draw_stacked_bars(BARS, order=ORDER))
    accepted, rejected = [part for part in with_class(root, "column")[0].iter() if "part" in part.get("class", "")]
    assert number(accepted, "height") == pytest.approx(3 * number(rejected, "height"), rel=0.02)
    assert number(rejected, "y") + number(rejected, "height") == pytest.approx(number(accepted, "y"), abs=0.02)


def test_each_state_has_a_pattern_of_its_own() -> None:
    root = parsed(draw_stacked_bars(BARS, order=ORDER, prefix="over-time"))
    patterns = {pattern.get("id"): ET.tostring(pattern) for pattern in root.iter(f"{SVG}pattern")}
    assert set(patterns) == {f"over-time-fill-{name}" for name in ORDER}
    marks = [[path.get("d") for path in pattern.iter(f"{SVG}path")] for pattern in root.iter(f"{SVG}pattern")]
    assert len({str(mark) for mark in marks}) == len(ORDER)
    fills = {part.get("fill") for part in with_class(root, "part")}
    assert fills == {f"url(#{identifier})" for identifier in patterns}


def test_parts_with_new_names_differ_in_colour_and_marks() -> None:
    bars = [Bar("09:00", "1 Feb 09:00", {"sent": 2, "returned": 3, "dropped": 1, "repeated": 4})]
    root = parsed(draw_stacked_bars(bars, order=tuple(bars[0].parts)))
    patterns = list(root.iter(f"{SVG}pattern"))
    colours = [rect.get("fill") for pattern in patterns for rect in pattern.iter(f"{SVG}rect")]
    marks = [str([path.get("d") for path in pattern.iter(f"{SVG}path")]) for pattern in patterns]
    assert len(set(colours)) == len(set(marks)) == len(patterns) == 4


def test_a_bar_leads_to_its_handoffs_and_says_what_it_holds() -> None:
    root = parsed(draw_stacked_bars(BARS, order=ORDER))
    (link,) = root.iter(f"{SVG}a")
    assert link.get("href") == "/t/acme/handoffs/?since=1&until=2"
    assert link.find(f"{SVG}title").text == "1 Feb 09:00: 30 accepted, 10 rejected"  # type: ignore[union-attr]
    assert root.get("role") == "group"


def test_the_table_says_the_same() -> None:
    drawing = draw_stacked_bars(BARS, order=ORDER)
    assert drawing.columns == ("Period", "accepted", "held", "rejected")
    assert drawing.rows == (("1 Feb 09:00", "30", "0", "10"), ("1 Feb 11:00", "5", "5", "0"))
    assert drawing.text == ("Handoffs over time: 35 accepted, 5 held, 10 rejected.",)


@pytest.mark.parametrize("highest", [1, 2, 3, 7, 10, 11, 99, 100, 101, 12_345, 9_999_999])
def test_the_scale_has_few_round_ticks_and_holds_every_bar(highest: int) -> None:
    root = parsed(draw_stacked_bars([Bar("x", "x", {"accepted": highest})], order=ORDER))
    (axis,) = with_class(root, "axis")
    ticks = [int((label.text or "").replace(",", "")) for label in axis.iter(f"{SVG}text")]
    assert ticks[0] == 0
    assert ticks[-1] >= highest
    assert len(ticks) == 3
    assert ticks[1] * 2 == ticks[2]
    assert str(ticks[1]).rstrip("0") in {"1", "2", "3", "4", "5", "6", "8"}
    # No more than half of the drawing stays empty.
    assert ticks[-1] <= max(2 * highest, 2)


@pytest.mark.parametrize("bars", [[], [Bar("x", "x", {})], [Bar("x", "x", {"accepted": 0})]])
def test_nothing_to_show_is_said(bars: list[Bar]) -> None:
    drawing = draw_stacked_bars(bars, order=ORDER)
    assert "Nothing in this period" in [text.text for text in parsed(drawing).iter(f"{SVG}text")]
    assert drawing.text == ("Handoffs over time: nothing in this period.",)
    assert drawing.rows == ()


def test_one_of_very_many_is_still_seen() -> None:
    root = parsed(draw_stacked_bars([Bar("x", "x", {"accepted": 1_000_000, "rejected": 1})], order=ORDER))
    assert all(number(part, "height") >= 1 for part in with_class(root, "part"))


def test_labels_under_many_bars_do_not_touch() -> None:
    bars = [Bar(f"{hour:02}:00", f"{hour}", {"accepted": 1}) for hour in range(60)]
    root = parsed(draw_stacked_bars(bars, order=ORDER, width=340))
    places = [number(label, "x") for label in root.iter(f"{SVG}text") if (label.text or "").endswith(":00")]
    assert len(places) >= 2
    assert all(after - before > 50 for before, after in pairwise(places))


def test_a_day_of_several_bars_is_named_once() -> None:
    bars = [Bar(f"{1 + at // 4} Feb", f"{at}", {"accepted": 1}) for at in range(24)]
    svg = parsed(draw_stacked_bars(bars, order=ORDER, width=900))
    labels = [
        (element.text or "", number(element, "x"))
        for element in svg.iter(f"{SVG}text")
        if "Feb" in (element.text or "")
    ]
    assert [label for label, _ in labels] == [f"{day} Feb" for day in range(1, 7)]
    columns = [number(column, "x") for column in with_class(svg, "part")]
    assert all(at - columns[4 * day] < columns[1] - columns[0] for day, (_, at) in enumerate(labels))


def test_a_legend_that_is_too_wide_takes_another_line() -> None:
    bars = [Bar("x", "x", dict.fromkeys(("accepted", "approved", "held", "rejected", "declined"), 1000))]
    root = parsed(draw_stacked_bars(bars, order=("accepted", "approved", "held", "rejected", "declined"), width=320))
    (legend,) = with_class(root, "legend")
    assert len({label.get("y") for label in legend.iter(f"{SVG}text")}) > 1
    assert all(number(label, "x") < 260 for label in legend.iter(f"{SVG}text"))


def test_labels_and_titles_are_text() -> None:
    hostile = '<script>"&\x00'
    drawing = draw_stacked_bars(
        [Bar(hostile, hostile, {"accepted": 1}, "javascript:alert(1)")], order=ORDER, title=hostile
    )
    root = parsed(drawing)
    assert "<script" not in drawing.svg
    assert not list(root.iter(f"{SVG}a"))


SECTIONS = [Section("context", 250, 200), Section("payload.working", 400, 500), Section("rest", 10)]


def test_what_is_over_its_target_is_hatched_and_the_target_marked() -> None:
    root = parsed(draw_token_sections(SECTIONS, total=660, budget=2000))
    over = [section.find(f"{SVG}title").text for section in with_class(root, "is-over")]  # type: ignore[union-attr]
    assert over == ["context: 250 / 200"]
    (hatched,) = with_class(root, "section-over")
    assert hatched.get("fill") == "url(#tokens-fill-over)"
    assert len(with_class(root, "section-target")) == 3


def test_all_bars_have_one_scale() -> None:
    root = parsed(draw_token_sections(SECTIONS, total=660, budget=2000))
    # The total, then the sections: lengths for 660, 200 within of 250, 400 and 10 tokens.
    lengths = [number(bar, "width") for bar in with_class(root, "section-within")]
    room = number(with_class(root, "section-room")[0], "width")
    assert lengths == pytest.approx([room * tokens / 2000 for tokens in (660, 200, 400, 10)], abs=0.1)


def test_the_budget_stands_beside_each_section_in_the_table() -> None:
    drawing = draw_token_sections(SECTIONS, total=660, budget=2000)
    assert drawing.columns == ("Section", "Tokens", "Target", "Difference")
    assert drawing.rows == (
        ("total", "660", "2,000", "1,340 left"),
        ("context", "250", "200", "+50"),
        ("payload.working", "400", "500", "100 left"),
        ("rest", "10", "none", ""),
    )
    assert drawing.text == ("660 tokens of a budget of 2,000: 1,340 left.", "Over its target: context by 50.")


def test_over_the_whole_budget_is_said_first() -> None:
    drawing = draw_token_sections(SECTIONS, total=2400, budget=2000)
    assert drawing.text[0] == "2,400 tokens of a budget of 2,000: 400 over."
    assert "is-over" in with_class(parsed(drawing), "section")[0].get("class", "")


def test_no_sections_and_no_tokens_are_drawn() -> None:
    assert len(with_class(parsed(draw_token_sections([], total=0, budget=0)), "section")) == 1


def test_bars_end_inside_the_drawing() -> None:
    root = parsed(draw_token_sections([Section("x", 10**9, 1)], total=10**9, budget=1, width=336))
    assert all(
        number(rectangle, "x") + number(rectangle, "width") <= 336 for rectangle in with_class(root, "section-over")
    )
