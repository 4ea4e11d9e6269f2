"""Tests of the drawing of handoffs on a real time axis."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from handoffaudit.drawing.lanes import Moment, draw_strip, draw_time_axis

START = datetime(2026, 2, 12, 9, 30, tzinfo=UTC)


def after(number: int, seconds: float, state: str = "accepted", tokens: int | None = 100) -> Moment:
    return Moment(number, START + timedelta(seconds=seconds), state, tokens)


def test_places_are_real_times_and_heights_are_tokens() -> None:
    drawn = draw_time_axis([after(1, 0), after(2, 100, tokens=50), after(3, 400, tokens=None)], width=1068)
    places = [(float(x), float(tall)) for x, tall in re.findall(r"M([\d.]+) 76v-([\d.]+)", drawn.svg)]
    assert [x for x, _ in places] == [58.0, 308.0, 1058.0]
    assert [tall for _, tall in places] == [62.0, 31.0, 4.0]
    assert drawn.text == (
        "3 handoffs from 2026-02-12 09:30:00 to 2026-02-12 09:36:40 UTC.",
        "The longest pause was 5.0 min, before handoff 3.",
        "150 tokens in all, at most 100 in handoff 1.",
    )


def test_blocked_handoffs_are_dashed_so_that_colour_is_not_the_only_sign() -> None:
    drawn = draw_time_axis([after(1, 0), after(2, 1, "rejected")], width=340)
    assert drawn.svg.count("stroke-dasharray") == 1


@pytest.mark.parametrize("seconds", [0, 0.001, 1, 59, 3600, 86_400, 40 * 86_400, 400 * 86_400, 200_000 * 86_400])
@pytest.mark.parametrize("width", [330, 1040])
def test_any_span_has_few_times_within_the_drawing(seconds: float, width: int) -> None:
    drawn = draw_time_axis([after(1, 0), after(2, seconds)], width=width)
    places = [float(x) for x in re.findall(r'<text x="([\d.]+)"', drawn.svg)]
    assert len(places) < 16
    assert all(0 <= x <= width for x in places)


def test_a_thousand_handoffs_are_one_shape_for_each_state() -> None:
    drawn = draw_time_axis([after(number, number * 7) for number in range(1000)], width=1040)
    assert len(drawn.svg) < 25_000
    assert drawn.svg.count("lane-state--accepted") == 1


def test_nothing_is_drawn_of_nothing() -> None:
    assert draw_time_axis([], width=340).svg == ""


def test_a_strip_has_a_bar_for_each_handoff_and_says_how_many_of_each_state() -> None:
    drawn = draw_strip(["accepted", "rejected", "accepted"])
    assert drawn.text == ("1 rejected, 2 accepted.",)
    assert drawn.svg.count("Z") == 3
    assert "1 rejected, 2 accepted." in drawn.svg


def test_a_long_strip_keeps_the_gravest_state_of_each_bar() -> None:
    drawn = draw_strip(["accepted"] * 199 + ["rejected"], prefix="s")
    assert drawn.svg.count("Z") == 40
    assert drawn.svg.count("fill-rejected") == 1
    assert len(drawn.svg) < 2_000
    assert draw_strip([]).text == ("no handoffs.",)
