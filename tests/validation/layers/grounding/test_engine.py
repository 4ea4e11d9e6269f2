"""Claims against their sources: what is grounded, what is derived, what is neither, and where it stands."""

import json
import unicodedata
from functools import partial

import pytest

from handoffaudit.validation.claims import Mark, Source
from handoffaudit.validation.layers.grounding.engine import ground
from handoffaudit.validation.layers.grounding.records import leaves
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from tests.elapsed import grows_linearly
from tests.scale import LARGE, cases, size

PAGE = """The minutes of the meeting were kept by John Smith, who works for Acme Corporation in Porto. Revenue was
1,200.50 euros on 2024-03-12, of which the share of repairs was 0.4 and the mean of all orders 54.0267. Three
plans cost 20.25, 45.50 and 300 euros. He said: "we will ship it on time". Flights go from BOS to LAS at
14:00. Write to desk@example.com about order W6390527."""
INDEX = SourceIndex.of([Source("context.page", PAGE)])


def values(claim: str, index: SourceIndex = INDEX) -> list[Mark]:
    return [mark for mark in ground(claim, index) if mark.kind != "wording"]


def statuses(claim: str) -> list[tuple[str, str]]:
    return [(mark.text, mark.status) for mark in values(claim)]


@pytest.mark.parametrize(
    "claim",
    [
        "it was 1200.5 euros",
        "it was 1,200.50 euros",
        "on 12 March 2024",
        "on 3/12/2024",
        "at 2 PM",
        "about 40 % of it",
        "signed by J. Smith",
        "said Smith's office",
        "to DESK@example.com",
        "order #W6390527",
        'he said "We will  ship it on time."',
        "three of them",
        "from Boston (BOS) on",
    ],
)
def test_another_spelling_is_grounded(claim: str) -> None:
    found = values(claim)
    assert found
    assert {mark.status for mark in found} == {"grounded"}


@pytest.mark.parametrize(
    ("given", "claim", "wrong"),
    [
        ("IBAN: DE89370400440532013000", "to DE89 3704 0044 0532 0130 00", "to DE89 3704 0044 0532 0103 00"),
        ("paid to DE89 3704 0044 0532 0130 00", "to DE89370400440532013000", "to DE89370400440532010300"),
        ("phone 4155550132", "call (415) 555-0132", "call (415) 555-0123"),
        ("Tel. 0176 5550 1234", "call +49 176 55501234", "call +49 176 55501243"),
        ("phone +49 711 2050-0", "Tel. 0711 / 20 50-0", "Tel. 0711 / 20 60-0"),
        ("phone +34 612 345 678", "call 0034 612345678", "call 0034 612345687"),
        ("flight LH 454", "on flight LH454", "on flight LH445"),
        ("the amount is 1299.99", "na kwotę 1 299,99 zł", "na kwotę 1 929,99 zł"),
        ("policy AU-2291-77", "for policy AU-2291-77", "for policy AU-2219-77"),
        ("on 14 March 2026", "on 2026-03-14", "on 15 March 2026"),
        ("due 2026-03-19", "bis zum 19. März 2026", "bis zum 29. März 2026"),
        ("3,400 Konten, Kunden", "rund 3.400 Konten für die Kunden", "rund 4.300 Konten für die Kunden"),
        ("rund 3.400 Konten für die Kunden", "3,400 accounts", "4,300 accounts"),
        ("revenue by month: 2026-01 412.7", "in January 2026", "in February 2026"),
    ],
)
def test_numbers_and_days_in_other_forms_are_grounded_only_if_they_are_the_same(
    given: str, claim: str, wrong: str
) -> None:
    index = SourceIndex.of([Source("context.page", given)])
    assert {mark.status for mark in ground(claim, index, restates=False)} == {"grounded"}
    assert "ungrounded" in {mark.status for mark in ground(wrong, index, restates=False)}


@pytest.mark.parametrize(
    ("given", "claim", "wrong"),
    [
        ('{"weight_g": 1250}', "it weighs 1.25 kg", "it weighs 1.52 kg"),
        ('{"weight_kg": 1250}', "it weighs 1250 kg", "it weighs 1.25 kg"),
        ('{"dims_mm": [400, 310, 150]}', "it is 40 x 31 x 15 cm", "it is 40 x 51 x 15 cm"),
        ('{"amount": 12999, "currency": "usd"}', "a refund of $129.99", "a refund of $139.99"),
        ("timeout after 30000ms", "after 30 seconds", "after 35 seconds"),
        ("a distance of 9140 km", "it is 5,679 miles", "it is 5,769 miles"),
        ('{"temp_f": 68.9}', "it was 20.5 °C", "it was 25.0 °C"),
        ('{"ts": 1769936400}', "on 1 February 2026 at 9:00 UTC", "on 2 February 2026 at 9:00 UTC"),
        ('{"ts": 1769936400}', "at 10:00 CET", "at 9:00 CET"),
        ("opened at 2026-02-19T14:05:00Z", "at 15:05 CET", "at 16:05 CET"),
        ("leaves at 2026-02-19T14:05:00+01:00", "at 13:05 UTC", "at 15:05 UTC"),
        ("qty,price\n3,7.40\n340,12.45", "a value of 4,233.00", "a value of 4,323.00"),
        ("USD 18500 at 1.0842", "EUR 17,063.27", "EUR 17,630.27"),
    ],
)
def test_numbers_in_other_units_and_products_are_derived(given: str, claim: str, wrong: str) -> None:
    index = SourceIndex.of([Source("context.page", given)])
    assert "ungrounded" not in {mark.status for mark in ground(claim, index, restates=False) if mark.kind != "name"}
    assert "ungrounded" in {mark.status for mark in ground(wrong, index, restates=False) if mark.kind != "name"}


def test_the_sum_and_the_mean_of_a_column_are_derived() -> None:
    table = "name,gross,net\nAnna,8450.00,6312.44\nPiotr,7900.00,5541.10\nEwa,10250.50,8420.77"
    index = SourceIndex.of([Source("context.page", table)])
    found = values("Gross pay adds up to 26,600.50, on average 8,866.83; net pay to 20,724.31.", index)
    assert [mark.status for mark in found if mark.kind == "number"] == ["derived", "derived", "ungrounded"]


def test_only_english_texts_are_judged_by_their_words() -> None:
    index = SourceIndex.of(Source(*leaf) for leaf in [("c.order", "40-118822"), ("c.item", "WM14"), ("c.price", "599")])
    text = "Ihre Waschmaschine WM14 wird am Donnerstag zwischen den Feiertagen geliefert und kostet 599 Euro."
    assert [mark.text for mark in ground(text, index) if mark.status == "ungrounded" and mark.counts] == []


@pytest.mark.parametrize(
    "claim",
    ["2026-11-02T09:30:00Z", "2026-11-02T09:30:00.000Z", "2026-11-02 09:30", "on November 2nd, 2026 at 9:30 AM"],
)
@pytest.mark.parametrize("given", ["2026-11-02T09:30:00+00:00", "2026-11-02T09:30:00.092560Z", "2026-11-02T09:30"])
def test_a_moment_is_its_day_and_its_time_in_each_spelling(claim: str, given: str) -> None:
    index = SourceIndex.of([Source("context.placed_at", given)])
    assert {mark.status for mark in values(claim, index)} == {"grounded"}
    assert [mark.text for mark in values(claim.replace("9:30", "9:40"), index) if mark.status == "ungrounded"]


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        ("some 1.2k euros", "rounded from 1,200.50"),
        ("54.03 on average", "rounded from 54.0267"),
        ("both cost 65.75", "20.25 + 45.5"),
        ("the rest is 279.75", "300 - 20.25"),
        ("all cost 365.75", "sum of 3 numbers from 20.25"),
        ("15.2% of that", "45.5 of 300"),
    ],
)
def test_what_follows_from_grounded_numbers_is_derived(claim: str, why: str) -> None:
    (mark,) = values(claim)
    assert (mark.status, mark.where) == ("derived", (why,))


@pytest.mark.parametrize(
    ("claim", "kind", "text", "closest"),
    [
        ("it was 1,300.50 euros", "number", "1,300.50", "1,200.50"),
        ("on 14 March 2024", "date", "14 March 2024", "2024-03-12"),
        ("at 3:30 PM", "date", "3:30 PM", ""),
        ("says Jonas Smith", "name", "Jonas", ""),
        ("order W6390528", "identifier", "W6390528", "W6390527"),
        ("to desk@example.org", "identifier", "desk@example.org", ""),
        ('he said "we will never ship it"', "quote", "we will never ship it", ""),
        ("by 77.7 percent", "number", "77.7 percent", ""),
    ],
)
def test_what_stands_nowhere_is_ungrounded_with_its_span(claim: str, kind: str, text: str, closest: str) -> None:
    (mark,) = [mark for mark in values(claim) if mark.status == "ungrounded"]
    assert (mark.kind, mark.text, claim[mark.start : mark.end]) == (kind, text, text)
    assert mark.closest == closest


@pytest.mark.parametrize(
    ("claim", "written", "text"),
    [
        ("Revenue was 47\u200b11 euros", "47\u200b11", "4711"),
        ("Revenue was \u2060\uff14\uff17\uff11\uff11\u2060 euros", "\uff14\uff17\uff11\uff11", "4711"),
        ("Revenue was 1\u00ad,\u200d300.50 euros", "1\u00ad,\u200d300.50", "1,300.50"),
        ("Revenue was \u0664\u0667\u0661\u0661 euros", "\u0664\u0667\u0661\u0661", "4711"),
    ],
)
def test_hidden_characters_and_other_digits_hide_no_value(claim: str, written: str, text: str) -> None:
    (mark,) = values(claim)
    assert (mark.status, mark.text, claim[mark.start : mark.end]) == ("ungrounded", text, written)


@pytest.mark.parametrize("part", ["4\u200b\uff11", r"\u00e9", "\\\\\\"])
def test_hidden_characters_and_escapes_are_read_in_time_in_proportion_to_the_text(part: str) -> None:
    assert grows_linearly(lambda size: partial(ground, r"\u " + part * (size // len(part)), INDEX), 8_000)


def test_hidden_characters_of_a_source_hide_no_value() -> None:
    index = SourceIndex.of([Source("context.page", "Revenue was 4\u200b7\ufeff11 euros, \uff13\uff15 in May.")])
    assert [mark.status for mark in values("It was 4711 euros, 35 in May", index)] == ["grounded", "grounded"]


@pytest.mark.parametrize("nested", [1, 2])
def test_an_escaped_letter_of_a_source_hides_no_name(nested: int) -> None:
    source = {"city": "Z\u00fcrich", "guest": "Jos\u00e9 Pe\u00f1a", "hotel": "Caf\u00e9 M\u00fcller"}
    text = json.dumps(source) if nested == 1 else json.dumps({"content": json.dumps(source)})
    claim = "Jos\u00e9 Pe\u00f1a stays at Caf\u00e9 M\u00fcller in Z\u00fcrich, not at Caf\u00e9 M\u00f6ller."
    marks = values(claim, SourceIndex.of([Source("context.page", text)]))
    assert [mark.text for mark in marks if mark.status == "ungrounded"] == ["M\u00f6ller"]


@pytest.mark.parametrize(
    "value",
    [
        "https://example.com/\u0130zmir/4711",
        "\u0130leti\u015fim@example.com",
        "order \u01304711",
        '"\u0130zmir raporu yar\u0131n haz\u0131r olacak"',
    ],
)
def test_a_copy_with_a_capital_i_with_a_dot_is_grounded(value: str) -> None:
    index = SourceIndex.of([Source("context.page", f"\u0130zmir wrote {value} today.")])
    assert {mark.status for mark in values(f"\u0130zmir says {value}.", index)} == {"grounded"}


def test_an_escaped_accent_of_a_source_hides_no_name() -> None:
    claim = "Jos\u00e9 Pe\u00f1a stays in Z\u00fcrich."
    index = SourceIndex.of([Source("context.page", json.dumps(unicodedata.normalize("NFD", claim)))])
    assert {mark.status for mark in values(claim, index)} == {"grounded"}


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\u2009", "\u202f", "\u3000"])
@pytest.mark.parametrize("is_in_claim", [True, False])
def test_blanks_without_a_line_break_hide_no_value(blank: str, *, is_in_claim: bool) -> None:
    text = "On 12 March 2024 at 2 PM, Ana Silva paid 5.5 % of 300 euros."
    source, claim = (text, text.replace(" ", blank)) if is_in_claim else (text.replace(" ", blank), text)
    marks = values(claim, SourceIndex.of([Source("context.page", source)]))
    assert {mark.status for mark in marks} == {"grounded"}
    assert [mark.text for mark in marks] == [mark.text for mark in values(text)]


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC"), ("NFD", "NFD")])
def test_decomposed_letters_hide_no_value(forms: tuple[str, str]) -> None:
    text = 'Jos\u00e9 Pe\u00f1a of \ud55c\uad6d said "D\u00e9j\u00e0 vu, c\u2019est fini" to ren\u00e9@example.com.'
    source, claim = (unicodedata.normalize(form, text) for form in forms)
    marks = values(claim, SourceIndex.of([Source("context.page", source)]))
    assert {mark.status for mark in marks} == {"grounded"}
    named = [claim[mark.start : mark.end] for mark in marks if mark.kind == "name"]
    assert named == [unicodedata.normalize(forms[1], "Jos\u00e9 Pe\u00f1a")]


def test_a_name_with_escaped_letters_has_its_span() -> None:
    claim = json.dumps({"guest": "Mr. Ren\u00e9 Pe\u00f1\u00e0", "nights": "5\u00a0in Porto"})
    index = SourceIndex.of([Source("context.page", "Ren\u00e9 Pe\u00f1\u00e0 stays 5 nights in Porto.")])
    marks = [(mark.kind, mark.text, claim[mark.start : mark.end]) for mark in ground(claim, index)]
    assert ("name", "Ren\u00e9 Pe\u00f1\u00e0", r"Ren\u00e9 Pe\u00f1\u00e0") in marks
    assert "identifier" not in {kind for kind, *_ in marks}


def test_grounded_says_where() -> None:
    (mark,) = values("he paid 1,200.50")
    (where,) = mark.where
    assert where.startswith("context.page: ")
    assert "1,200.50" in where


@pytest.mark.parametrize("claim", ["1. First\n2. Second", "### Travel Plan\n", "**Total Amount**: see above"])
def test_headings_and_list_marks_are_no_claims(claim: str) -> None:
    assert [mark for mark in values(claim) if mark.status == "ungrounded"] == []


@pytest.mark.parametrize(
    ("number", "claim"),
    [
        (0.00001, "a rate of 0.00001"),
        (0.00001, "a rate of 1e-05"),
        (0.00001, "a rate of 1e-5"),
        (0.000045, "a loss of 0.0045 %"),
        (1.2e22, "it has 1.2e22 wei"),
        (5e16, "it has 50000000000000000 wei"),
        (float(12345678901234567890123), "it has 12345678901234567890123 wei"),
    ],
)
def test_a_number_that_python_writes_with_an_exponent_is_found(number: float, claim: str) -> None:
    (mark,) = values(claim, SourceIndex.of(leaves({"it": [number]}, "context")))
    assert (mark.status, mark.where[0].partition(":")[0]) == ("grounded", "context.it[0]")
    (mark,) = values(claim, SourceIndex.of([Source("context", json.dumps({"it": number}))]))
    assert mark.status == "grounded"


def test_leaves_are_named_by_their_paths() -> None:
    document = {"order": {"items": [{"price": 3.5, "sent": True}], "id": "W1", "note": None}}
    assert set(leaves(document, "context")) == {
        Source("context.order.items[0].price", "3.5", ".order.items[0].price"),
        Source("context.order.items[0].sent", "true", ".order.items[0].sent"),
        Source("context.order.id", "W1", ".order.id"),
    }


def test_no_sources_leave_everything_ungrounded() -> None:
    assert statuses("it was 1,300.50") == statuses("it was 1,300.50")
    empty = SourceIndex.of([])
    assert [mark.status for mark in values("it was 1,300.50", empty)] == ["ungrounded"]


@pytest.mark.parametrize(
    "piece",
    cases(
        ["a", "1", "Ab ", "7.1 ", "1 Ab", '"', "x@y.z ", "{", "- a: 1\n", "a,b\n", "\ud800", "\0", "\u0130 7 "],
        ["a", "7.1 ", '"', "a,b\n", "\ud800"],
    ),
)
def test_hostile_texts_on_both_sides_are_judged_in_bounded_time(piece: str) -> None:
    def judged(text: str) -> list[Mark]:
        return ground(text, SourceIndex.of([Source("context", text[::-1])]))

    text = piece * (LARGE // len(piece))
    assert all(text[mark.start : mark.end] == mark.text for mark in judged(text))
    assert grows_linearly(lambda length: partial(judged, piece * (length // len(piece))), size(2**16))


@pytest.mark.parametrize(
    ("wanted", "is_there"),
    [
        ("hello", True), ("hello_world", True), ("ann-lee met", True), ("5", True), ("12.5", True), ("1,200", True),
        ("#w123", True), ("u.k.", True), ("2", False), ("hell", False), ("hello_there", False), ("lee had", False),
        ("12.5 m", False), ("1,20", False), ("#w124", False), ("200.5", False),
    ],
)  # fmt: skip
def test_long_sources_are_searched_like_short_ones(wanted: str, is_there: bool) -> None:
    note = "Ann-Lee met Hello_World Ltd. about 5G masts, 12.5 km, 1,200 of #W123 and rules of the U.K. today."
    short = SourceIndex.of([Source("context.note", note)])
    long = SourceIndex.of([Source("context.note", note), Source("context.page", "lorem ipsum " * 2_000)])
    assert long.find(wanted) == short.find(wanted)
    assert (short.find(wanted) >= 0) is is_there
    stem = wanted.split(maxsplit=1)[0][:4]
    assert long.begins_word(stem) == short.begins_word(stem)


def test_a_deep_document_has_no_leaves_to_run_out_of_stack_for() -> None:
    deep: object = "bottom"
    for _ in range(50_000):
        deep = [deep]
    (leaf,) = leaves(deep, "data")
    assert leaf.text == "bottom"


def test_the_answer_of_a_tool_brings_its_own_values() -> None:
    answer = '{"order": "W777", "price": 981.13, "sold": "2019-08-04"}'
    assert [mark for mark in values(answer) if mark.status == "ungrounded"] == []


def test_arguments_of_a_call_restate_their_sources() -> None:
    arguments = '{"order": "W6390527", "price": 300, "day": "2024-03-12", "desk": "desk@example.org"}'
    assert [mark.text for mark in values(arguments) if mark.status == "ungrounded"] == ["desk@example.org"]


def test_a_country_is_known_by_its_code_in_capitals() -> None:
    index = SourceIndex.of([Source("context.country", "PH"), Source("context.note", "it is said to be so")])
    assert [mark.status for mark in values("flown out from the Philippines", index)] == ["grounded"]
    assert [mark.status for mark in values("flown out to Iceland and on", index)] == ["ungrounded"]


def test_sources_are_named_rightly_after_texts_that_change_their_length() -> None:
    index = SourceIndex.of(
        [Source("first", "\u0130" * 500), Source("second", "a price of\\u200920.25"), Source("third", "41.75")]
    )
    (mark,) = values("it cost 41.75", index)
    assert mark.where == ("third: 41.75",)
    plain = SourceIndex.of([Source("first", "\\u2009" * 50), Source("second", "a price of\\u200920.25")])
    (mark,) = values("it cost 20.25", plain)
    assert mark.where == ("second: a price of 20.25",)


def test_a_part_of_a_value_that_was_found_is_no_wording_of_its_own() -> None:
    index = SourceIndex.of([Source("context.facts", "Anna Schmidt sold 40 of 50 cars on 12 March 2024 in Lagos.")])
    marks = ground("Carla sold 80 % of all lorries on 2024-03-12.", index)
    assert [(mark.text, mark.status) for mark in marks if mark.kind in ("number", "date")] == [
        ("80 %", "derived"),
        ("2024-03-12", "grounded"),
    ]
    wording = {mark.text for mark in marks if mark.kind == "wording"}
    assert "lorries" in " ".join(wording)
    assert wording.isdisjoint({"80", "03", "12", "2024"})
    marks = ground("Carla sold 75 lorries.", index)
    assert [(mark.kind, mark.status) for mark in marks if mark.text == "75"] == [("number", "ungrounded")]


@pytest.mark.parametrize(
    ("claim", "status"),
    [
        ("4711 * 1 = 4711\nThe bridge has 4711 stones.", "ungrounded"),
        ("4700 + 11 = 4711\nThe bridge has 4711 stones.", "ungrounded"),
        ("1% + 1 = 4711\nThe bridge has 4711 stones.", "ungrounded"),
        ("300 * 12 + 1,111 = 4711\nThe bridge has 4711 stones.", "ungrounded"),
        ("300 * 12 * 7 - 4 = 25196\nThe bridge has 25196 stones.", "derived"),
        ("300 * 12 * 7 = 25200\n25200 * 3 - 5 = 75595\nThe bridge has 75595 stones.", "derived"),
    ],
)
def test_a_result_is_derived_only_from_known_numbers(claim: str, status: str) -> None:
    assert values(claim)[-1].status == status


def test_a_comparison_in_code_is_no_wrong_calculation() -> None:
    claim = "```python\nimport os\nmost = 3 * 300 = 700\n```\n3 * 300 = 701"
    assert [mark.text for mark in values(claim) if mark.kind == "calculation"] == ["701"]
