"""Tests of a raw document by lines and in parts."""

import pytest

from handoffaudit.dashboard.handoffs.document import MOST_LINES, PART, raw_part


def every_part(original: bytes) -> list[str]:
    """Return the lines with their numbers from all parts, in order."""
    read, start = [], 0
    while True:
        part = raw_part(original, start)
        joined = part.lines
        if part.is_cut and read:
            read[-1] += joined[0]
            joined = joined[1:]
        read += joined
        if not part.following:
            return read
        assert part.following > start
        start = part.following


def test_a_small_document_is_one_part_with_its_lines() -> None:
    part = raw_part(b'\xef\xbb\xbf{\n  "a": 1\n}\n')
    assert (part.lines, part.number, part.is_whole) == (("{", '  "a": 1', "}"), 1, True)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"line {number}" for number in range(5000)),
        "x" * (3 * PART + 7),
        "\n" * 2000,
        "\n".join("y" * 7000 for _ in range(20)),
        "",
        "\n",
    ],
    ids=["lines", "one line", "empty lines", "long lines", "nothing", "one break"],
)
def test_every_line_is_read_by_turning_the_pages(text: str) -> None:
    assert every_part(text.encode()) == text.removesuffix("\n").split("\n")


def test_a_later_part_goes_on_with_the_numbers() -> None:
    original = b"\n".join(b"line %d" % number for number in range(1000))
    part = raw_part(original, raw_part(original).following)
    assert (part.number, part.lines[0], part.is_cut) == (MOST_LINES + 1, f"line {MOST_LINES}", False)
    assert not part.is_whole


def test_a_start_past_the_end_shows_nothing_and_leads_back() -> None:
    part = raw_part(b"abc", 99)
    assert (part.lines, part.following, part.before) == (("",), 0, 0)


def test_a_part_made_to_swell_is_short_and_what_hides_is_shown() -> None:
    part = raw_part(b"\x00" * 50_000)
    assert part.lines[0].startswith("⟨U+0000⟩")
    assert sum(map(len, part.lines)) < 80_000
    assert part.following
