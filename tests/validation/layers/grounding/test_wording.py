"""Wording that departs from its source is marked at the words; what keeps to it, and what restates nothing, is not."""

from functools import partial

import pytest

from handoffaudit.validation.claims import Source
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.wording_judge import judge_wording
from tests.elapsed import grows_linearly
from tests.scale import size

REPORT = """The harbour authority of Port Alder opened its new ferry terminal on Monday after three years of
building work.

The terminal replaces a wooden pier from 1931 that had been closed since a storm damaged it in 2019. It can handle four
ferries at a time and up to 9,000 passengers a day, twice as many as the old pier.

Local shopkeepers welcomed the opening. They said that fewer visitors had come to the old town while the pier was shut,
and that they expect sales to rise by the summer. The mayor, Ellen Marsh, said the city would not raise the price of
tickets before the end of next year, although running costs have increased.

Critics had warned that the terminal would be too large for the bay. An independent review found no damage to the water
quality, and the authority will publish the measurements every month. The ferries are electric and are charged at night,
when demand for power is low. The authority borrowed most of the money from a public bank and will repay it within 20
years out of the fees that shipping companies pay."""
SUMMARY = (
    "Port Alder has opened a new ferry terminal after three years of building work, replacing a wooden pier closed "
    "since a storm in 2019. Shopkeepers expect sales to rise, and an independent review found no damage to the water "
    "quality."
)
SNIPPET = (
    "The bow and arrow was invented in the later Paleolithic period and was used for hunting until the 17th century."
)


def index(*texts: str) -> SourceIndex:
    return SourceIndex.of(Source(f"context[{at}]", text) for at, text in enumerate(texts))


def marked(claim: str, source: str) -> list[str]:
    return [mark.text for mark in judge_wording(claim, index(source))[1]]


def test_a_faithful_summary_is_left_alone():
    assert marked(SUMMARY, REPORT) == []


def test_a_summary_in_other_words_is_left_alone():
    reworded = SUMMARY.replace("building work", "construction").replace("sales to rise", "sales to increase")
    assert marked(reworded, REPORT) == []


@pytest.mark.parametrize(
    ("was", "now", "seen"),
    [
        ("new ferry terminal after three", "new ferry terminal after eleven", "eleven"),
        ("in 2019", "in 2016", "2016"),
        ("Port Alder has", "Port Alder has not", "not"),
        ("a wooden pier", "a Bristol pier", "Bristol"),
        ("an independent review", "a dependent review", "dependent"),
    ],
)
def test_a_changed_word_of_a_summary_is_marked_at_its_place(was, now, seen):
    claim = SUMMARY.replace(was, now)
    _, marks = judge_wording(claim, index(REPORT))
    assert seen in [mark.text for mark in marks]
    for mark in marks:
        assert claim[mark.start : mark.end] == mark.text
        assert (mark.kind, mark.status) == ("wording", "ungrounded")


def test_an_opposite_names_what_the_source_has_instead():
    claim = SUMMARY.replace("expect sales to rise", "expect sales to fall")
    _, [mark] = judge_wording(claim, index(REPORT))
    assert mark.text == "fall"
    assert mark.closest == "rise"


def test_a_known_word_is_marked_where_the_sentence_about_it_has_the_opposite():
    source = REPORT.replace("expect sales to rise", "expect sales at the market to rise") + " Tax on fuel will fall."
    claim = SUMMARY.replace("expect sales to rise", "expect sales at the market to fall")
    assert marked(claim, source) == ["fall"]
    assert marked(claim.replace("to fall", "to rise"), source) == []


@pytest.mark.parametrize("written", ["YoY", "YOY"])
def test_an_abbreviation_of_words_of_the_source_is_no_new_name(written):
    source = REPORT + " Year over year, the number of passengers grew by 12 percent."
    claim = SUMMARY.replace("Shopkeepers expect sales to rise", f"Passengers grew by 12 percent {written}")
    assert marked(claim, source) == []
    assert marked(claim.replace(written, "YoZ"), source) == ["YoZ"]


def test_an_answer_that_keeps_to_its_snippet_is_left_alone():
    assert marked("The bow and arrow was used for hunting until the 17th century.", SNIPPET) == []


def test_interjections_that_open_an_answer_are_no_wording():
    claim = "Historically archery has been used for hunting and combat."
    source = "Historically, archery has been used for hunting and combat."
    assert marked(f"Oh yes! {claim} Yeah, hunting and combat.", source) == []
    assert "Yes" not in marked("Yes, it was brought from Egypt by traders who sold it to kings.", SNIPPET)
    assert marked("Yes! Oh yeah.", source) == []


def test_one_in_figures_is_known_from_its_word():
    source = "Competitive routines typically range anywhere from one to three minutes, and contain dance and jumps."
    assert marked("Competitive routines range anywhere from 1 to 3 minutes.", source) == []


def test_an_answer_that_adds_to_its_snippet_is_marked():
    assert "Egypt" in " ".join(marked("The bow was brought from Egypt by traders who sold it to kings.", SNIPPET))


def test_without_capitals_every_new_word_may_be_a_name():
    claim = "the french mayor of port alder has banned all ferries from the bay after a deadly crash last winter ."
    assert "crash" in " ".join(marked(claim, REPORT))
    assert marked("the terminal replaces a wooden pier from 1931 .", REPORT) == []


@pytest.mark.parametrize(
    "claim",
    [
        "I can help you with that. Could you give me the number of the ticket that you bought at the new terminal?",
        "Thank you! I've opened a refund for the tickets you bought, and you will not be charged by us again.",
        '{"terminal": "Port Alder", "opened": "Tuesday", "passengers": 12000}',
        "cancel_ferry_ticket",
        "1130.85",
        "| pier | 1931 |\n| terminal | 2024 |",
        "terminal.open()\nif pier == None:\n    raise ClosedError('no pier in the harbour of this town')",
        "",
        "   ",
    ],
)
def test_what_restates_nothing_is_not_judged(claim):
    assert marked(claim, REPORT) == []


def test_a_conversation_is_no_knowledge_to_answer_from():
    assert marked("The trip goes from Houston to Denver.", "Hi! I'd like to change my flight. Can you help me?") == []
    assert marked("Twelve new ferries were bought in Norway.", "get_ferry_details\n{...}") == []


def test_without_sources_nothing_is_judged():
    assert judge_wording(SUMMARY, index()) == (False, [])
    assert judge_wording(SUMMARY, index("")) == (False, [])


@pytest.mark.parametrize(
    "text",
    [
        lambda n: "a" * n,
        lambda n: "a " * (n // 2),
        lambda n: "no " * (n // 6),
        lambda n: "Alder. " * (n // 36),
        lambda n: "aa\n" * (n // 36) + "bb\n" * (n // 36),
        lambda n: "aa " * (n // 36) + "bb " * (n // 36),
        lambda n: "\ud800 not \x00 a word" * (n // 200),
        lambda n: "'" * (n // 6),
        lambda n: "1," * (n // 12),
        lambda n: ". " * (n // 12),
        lambda n: " ".join(f"w{number}" for number in range(n // 36)),
    ],
)
def test_hostile_texts_take_time_in_proportion_as_claim_and_as_source(text):
    def mark(text: str) -> None:
        claims = (text, text[:1_900], SUMMARY, SUMMARY.lower(), "Aa bb " * 80 + ".", "aa bb " * 15, "Alder. No. " * 15)
        for claim in claims:
            judge_wording(claim, index(text))
            judge_wording(claim, index(REPORT))

    assert grows_linearly(lambda length: partial(mark, text(length)), size(2**16))
