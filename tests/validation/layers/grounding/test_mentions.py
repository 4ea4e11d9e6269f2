"""The name of a source supports the mention of that source and no value."""

import unicodedata
from typing import Any, Literal

import pytest

from handoffaudit.validation.layers.grounding.mentions import SourceNames
from handoffaudit.validation.layers.grounding.values import values_in
from tests.validation.support import judge, payload

UNRELATED = "Nothing is said about figures here."


def statuses(claim: str, evidence: list[Any] | None = None, context: dict[str, Any] | None = None) -> dict[str, str]:
    """Return each looked-up value of a claim with its status."""
    verdict = judge(payload(data={"text": claim}), envelope={"evidence": evidence, "context": context})
    return {mark.text: mark.status for one in verdict.claims for mark in one.marks if mark.kind != "wording"}


@pytest.mark.parametrize("content", ["", {}, [], UNRELATED])
@pytest.mark.parametrize(
    "name",
    [
        "report-2099-4711",
        "2099/4711",
        "Revenue in 2099 was 4711 EUR",
        "https://example.com/2099/4711",
        "4711",
        "2099",
        "4711 EUR",
    ],
)
def test_the_name_of_an_evidence_item_grounds_no_value(name: str, content: Any) -> None:
    found = statuses("Revenue in 2099 was 4711 EUR.", [{"source": name, "content": content}])
    assert {found["2099"], found["4711"]} == {"ungrounded"}


@pytest.mark.parametrize(
    ("claim", "name", "value"),
    [
        ("The order was signed on 12 March 2099 there.", "12 March 2099", "12 March 2099"),
        ("The order was signed by John Smithers there.", "John Smithers", "John Smithers"),
        ("The order was signed by John Smithers there.", "report-john-smithers", "John Smithers"),
        ("The order W4711 was paid at once.", "orders/W4711/paid", "W4711"),
    ],
)
def test_dates_names_and_identifiers_rest_on_no_name_either(claim: str, name: str, value: str) -> None:
    assert statuses(claim, [{"source": name, "content": UNRELATED}])[value] == "ungrounded"


def test_a_key_of_the_context_names_a_source_and_the_keys_within_are_content() -> None:
    claim = "The order was signed by Smithers there."
    assert statuses(claim, context={"report of Smithers": UNRELATED}) == {"Smithers": "ungrounded"}
    assert statuses(claim, context={"report": {"smithers": UNRELATED}}) == {"Smithers": "grounded"}
    assert statuses(claim, [{"source": "report", "content": {"smithers": UNRELATED}}]) == {"Smithers": "grounded"}


def test_references_and_ids_ground_nothing() -> None:
    document = payload(data={"text": "Revenue in 2099 was 4711 EUR."}, context_refs=["2099", "report 4711"])
    verdict = judge(document, envelope={"context": {"page": UNRELATED}, "trace_id": "run-4711", "agent": "a 2099"})
    assert {mark.status for claim in verdict.claims for mark in claim.marks} == {"ungrounded"}


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        ("As report-2099-4711 says, prices fell.", "report-2099-4711"),
        ("Prices fell (see survey_7781).", "survey_7781"),
        ("Prices fell [Survey_7781].", "survey_7781"),
        ("Prices fell: https://example.com/2099/4711.", "https://example.com/2099/4711"),
        ("According to the Annual Report 2099, prices fell.", "Annual Report 2099"),
        ("Prices fell [Annual Report 2099].", "annual report 2099"),
        ("Source: Annual Report 2099", "Annual Report 2099"),
    ],
)
def test_a_mention_of_a_source_is_grounded_by_its_name(claim: str, name: str) -> None:
    found = statuses(claim, [{"source": name, "content": "Prices fell."}])
    assert found
    assert set(found.values()) == {"grounded"}
    assert "ungrounded" in statuses(claim, [{"source": "another", "content": "Prices fell."}]).values()


def test_a_mention_says_which_source_it_names() -> None:
    text = "As report-2099-4711 says, prices fell."
    evidence = [{"source": "other", "content": ""}, {"source": "report-2099-4711", "content": "Prices fell."}]
    verdict = judge(payload(data={"text": text}), envelope={"evidence": evidence})
    (mark,) = [mark for mark in verdict.claims[0].marks if mark.text == "4711"]
    assert mark.where == ("evidence[1].source: report-2099-4711",)


@pytest.mark.parametrize(
    "claim",
    [
        "It was 4711 as report-2099-4711-b says.",
        "An Annual Report 2099 would help.",
        "According to the Annual Report 20991 prices fell.",
        "The 2099 report says so; according to the Annual Report it was so.",
    ],
)
def test_only_the_whole_name_is_a_mention(claim: str) -> None:
    names = SourceNames([("report-2099-4711", "evidence[0].source"), ("Annual Report 2099", "evidence[1].source")])
    assert names.mentions(claim, values_in(claim)) == {}


def test_many_names_and_cues_are_bounded() -> None:
    names = SourceNames((f"report number {number} " + "x" * 400, "evidence[0].source") for number in range(50_000))
    claim = "see report number 1 " * 20_000
    assert names.mentions(claim, values_in(claim)) == {}


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        ("公司2099年收入4711万元\uff0c利润55万元", "公司2099年收入4711万元\uff0c利润55万元"),
        ("売上は2099年に4711円でした。", "売上は2099年に4711円でした。"),
        ("売上は2099年に4711円でした。", "売上は2099年に4711円でした"),
        ("Source: 公司2099年收入4711万元\uff0c利润55万元", "公司2099年收入4711万元\uff0c利润55万元"),
        ("รายได้ปี2099คือ4711บาท", "รายได้ปี2099คือ4711บาท"),
        ("[Revenue was 4711 EUR in 2099]", "Revenue was 4711 EUR in 2099"),
        ("Source: Revenue was 4711 EUR in 2099", "Revenue was 4711 EUR in 2099"),
        ("According to Founded in 2099 it was so.", "Founded in 2099"),
        ("According to Revenue 4711 it was so.", "Revenue 4711"),
        ("See the 2098 Annual Report 2099.", "2098 Annual Report 2099"),
        ("Prices rose by USD:4711 there.", "USD:4711"),
        ("Prices rose by USD4711.50/month there.", "USD4711.50/month"),
        ("Prices rose by EUR/4711 there.", "EUR/4711"),
        ("Prices rose by EUR4711 there.", "EUR4711"),
        ("Prices rose by EUR4711m there.", "EUR4711m"),
        ("It is a 4711-person company.", "4711-person"),
        ("We got 50k-users there.", "50k-users"),
        ("We sold 4711_units there.", "4711_units"),
        ("Revenue was 4711/annum there.", "4711/annum"),
        ("Sales of approx.4711 were made.", "approx.4711"),
        ("The prices fell by a://4711 there.", "a://4711"),
        ("It was so in Dec-2099 there.", "Dec-2099"),
        ("It was so on December/24/2099 there.", "December/24/2099"),
        ("It was so in FY2099 there.", "FY2099"),
        ("It was so in Q3-2099 there.", "Q3-2099"),
        ("It is good, see profitable since 2099.", "Profitable since 2099"),
        ("It is good, see founded 2099.", "Founded 2099"),
        ("It is good, see in December 2099.", "In December 2099"),
        ("Gut, see rentabel seit 2099.", "Rentabel seit 2099"),
        ("report-2099-4711", "report-2099-4711"),
        ("(report-2099-4711).", "report-2099-4711"),
    ],
)
def test_a_name_that_is_a_statement_or_an_amount_supports_no_figure(claim: str, name: str) -> None:
    document = payload(data={"rationale": claim})
    verdict = judge(document, envelope={"evidence": [{"source": name, "content": UNRELATED}]})
    marks = [mark for one in verdict.claims for mark in one.marks if any(map(str.isdigit, mark.text))]
    assert {mark.status for mark in marks} <= {"ungrounded"}
    # Most values of a text in brackets are in no source: such a text has no marks.
    assert marks or claim.startswith("[")


@pytest.mark.parametrize(
    ("claim", "name"),
    [
        ("reports/2099/q3.pdf", "reports/2099/q3.pdf"),
        ("https://example.com/2099/4711", "https://example.com/2099/4711"),
        ("As Jahresübersicht-2099.pdf says, prices fell.", "Jahresübersicht-2099.pdf"),
        ("As order W4711 says, prices fell.", "W4711"),
        ("\u0130rem: As order W4711 says, prices fell.", "W4711"),
        ("\u0130rem: According to the Annual Report 2099, prices fell.", "Annual Report 2099"),
        ("As 2099-annual-report says, prices fell.", "2099-annual-report"),
        ("As 4711.json says, prices fell.", "4711.json"),
        ("As write-4711@example.com says, prices fell.", "write-4711@example.com"),
    ],
)
def test_paths_addresses_and_identifiers_stay_mentions(claim: str, name: str) -> None:
    found = statuses(claim, [{"source": name, "content": "Prices fell."}])
    assert {status for text, status in found.items() if any(map(str.isdigit, text))} <= {"grounded"}
    assert SourceNames([(name, "evidence[0].source")]).mentions(claim, values_in(claim))


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("name", ["Jahres\u00fcbersicht-2099.pdf", "Bericht M\u00fcnchen 2099"])
def test_a_name_is_found_in_each_form_of_its_letters_and_blanks(name: str, form: Literal["NFC", "NFD"]) -> None:
    written = unicodedata.normalize(form, name).replace(" ", "\u00a0")
    found = statuses(f"According to {name}, prices fell.", [{"source": written, "content": "Prices fell."}])
    assert {status for text, status in found.items() if text != "According"} == {"grounded"}
