"""Calculations in texts: which are read, which are right, and what is no calculation."""

from functools import partial

import pytest

from handoffaudit.validation.layers.grounding.calculations import calculations_in
from tests.elapsed import grows_linearly


def read(text: str) -> list[tuple[str, float, bool]]:
    return [(text[one.start : one.end], round(one.result, 6), one.holds) for one in calculations_in(text)]


@pytest.mark.parametrize(
    ("text", "stated", "result"),
    [
        ("997 \\cdot 332 = 331964", "331964", 331004),
        ("The boxes come to 4 \u00d7 120 meters = 481 meters.", "481", 480),
        ("- 25 * 2 = 51", "51", 50),
        ("Total = 63 + 0 + 170 = 230", "230", 233),
        ("\\[\\frac{1}{4} \\times 60 = 20 \\text{ litres}\\]", "20", 15),
        ("120^2 = 14401", "14401", 14400),
        ("$4,050 / 11,250 hours = $0.46", "0.46", 0.36),
    ],
)
def test_a_wrong_result_is_found_with_the_right_one(text: str, stated: str, result: float) -> None:
    assert read(text) == [(stated, result, False)]


@pytest.mark.parametrize(
    "text",
    [
        "(-15)^2 - 4(2)(28) = 225 - 224 = 1.",
        "Difference = 755,000 - 685,000 = 70,000",
        "20 \\text{ pounds} \\times 15 \\text{ dollars/pound} = 300 \\text{ dollars}",
        "2\\sqrt{9} = 6",
        "10 / 3 = 3.33",
        "42.195 / 1.9944 \\approx 21.2",
        "5 \u00d7 20 % = 100 %",
        "- 25 * 2 = 50",
        "2 x 3 = 6",
    ],
)
def test_a_right_result_holds(text: str) -> None:
    assert read(text)
    assert all(holds for _, _, holds in read(text))


@pytest.mark.parametrize(
    "text",
    [
        "x = 143k + 10 = 20",
        "10^4 x - x = 1331",
        "2r - 3 = 0",
        "5 \\times 10^7 = 50 \\text{ million}",
        "3 dozen + 1 = 37",
        "1000 mod 997 = 3",
        "((((2 + 2 = 5",
        "a = 5, b = 7",
        "status_code == 200",
        "<div class='a' width=100>",
        "9" * 5_000 + " * 9 = 1",
        "2^9999999 = 5",
        "1 / 0 = 3",
    ],
)
def test_what_is_no_calculation_with_numbers_alone_is_left_alone(text: str) -> None:
    assert [one for one in read(text) if not one[2]] == []


@pytest.mark.parametrize(
    "text",
    [
        "log(100) + 1 = 3",
        "x_1 + 2 = 5",
        "1e3 + 1 = 1001",
        "3,5 \u00d7 2 = 7",
        "10% of 50 + 5 = 10",
        "1\\frac{1}{2} + 1 = 2.5",
        "\\sqrt[3]{27} + 1 = 4",
        "6/2(1+2) = 1",
        "pages 10-20 = 11 pages",
        "Ages 18\u201325 = 120 people",
        "Grades: 90-100 = 4.0",
        "2019\u20132023 = 5 years",
        "12/3/2024 = 2024",
        "2024/25 = 12",
        "Score: 8/10 = 80",
        "192.168.0.1/24 = 256",
        "9:00 + 45 min = 9:45",
        "2 hours + 30 min = 150 min",
        "$5 + 50 cents = $5.50",
        "60 \u00d7 60 = 1 hour",
        "1 GB / 4 = 256 MB",
        "1200 \u00d7 1000 = 1.2M",
        "11 + 3 = 2 am",
        "1 + 1 = 10 in binary",
        "Step 2 - 10 + 5 = 15",
        "In 2024 \u2013 10 + 5 = 15",
        "The earlier 25 * 2 = 51 is wrong.",
        "Is 25 * 2 = 51?",
        "23 % 7 = 2",
    ],
)
def test_what_may_mean_something_else_is_not_called_wrong(text: str) -> None:
    assert [one for one in read(text) if not one[2]] == []


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("200 + 10% = 220", [True]),
        ("100 - 15% = 85", [True]),
        ("(120 - 100) / 100 \u00d7 100 = 20%", [True]),
        ("0.25 + 0.75 = 100%", [True]),
        ("50% \u00d7 200 = 110", [False]),
        ("1% + 1 = 4711", []),
    ],
)
def test_a_percentage_is_read_as_a_share_or_as_a_number(text: str, holds: list[bool]) -> None:
    assert [one[2] for one in read(text)] == holds


@pytest.mark.parametrize(
    "unit", ["1 + ", "(", "1 = ", "\\frac{", "- 1 = 2 ", "\\text{a} ", "1,000 * 2 = 3\n", "= ", "a.", " "]
)
def test_a_hostile_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    assert grows_linearly(lambda size: partial(calculations_in, unit * (size // len(unit)) + "="), 4_000)
