"""Tests of numbers over time in a row of a list."""

from xml.etree import ElementTree as ET

import pytest

from handoffaudit.drawing.charts import draw_sparkline

SVG = "{http://www.w3.org/2000/svg}"


def rects(svg: str) -> list[dict[str, str]]:
    return [dict(one.attrib) for one in ET.fromstring(svg).iter(f"{SVG}rect")]  # noqa: S314


def test_each_number_is_a_bar_and_the_highest_is_as_high_as_the_drawing() -> None:
    drawn = draw_sparkline([1, 0, 4], title="Last days", prefix="s", width=30, height=20)
    one, four = rects(drawn.svg)
    assert (one["height"], four["height"]) == ("5", "20")
    assert four["class"] == "spark-last"
    assert float(one["x"]) < 10
    assert float(four["x"]) > 20


def test_it_says_its_numbers_in_words_and_as_a_table() -> None:
    drawn = draw_sparkline([1, 2000], title="Last days", prefix="s", labels=["1 May", "2 May"])
    assert drawn.text == ("Last days: 1, 2,000.",)
    assert drawn.rows == (("1 May", "1"), ("2 May", "2,000"))
    root = ET.fromstring(drawn.svg)  # noqa: S314
    assert root.attrib["role"] == "img"
    assert root.findtext(f"{SVG}desc") == drawn.text[0]


@pytest.mark.parametrize("numbers", [[], [0, 0]])
def test_nothing_is_drawn_as_a_floor_without_bars(numbers: list[int]) -> None:
    assert rects(draw_sparkline(numbers, title="<none>", prefix="s").svg) == []


def test_a_little_one_beside_a_large_one_can_still_be_seen() -> None:
    small, _ = rects(draw_sparkline([1, 100_000], title="t", prefix="s").svg)
    assert float(small["height"]) >= 1
