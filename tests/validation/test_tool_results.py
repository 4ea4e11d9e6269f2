"""Tool results are evidence, but never for a value that the call itself brought in."""

import base64
from typing import Any

import orjson
import pytest

from handoffaudit.validation.tool_results import MOST_TEXT, capture, label_of, sources_of
from tests.validation.support import codes, judge, payload

ORDER = {"order_id": "W123", "total": 54.2, "status": "delivered", "customer": "Mia Garcia"}


def evidence(result: Any, arguments: Any = None, tool: str = "get_order", call_id: str = "call_17") -> Any:
    found = capture(result, arguments)
    return tuple(sources_of(label_of(tool, call_id), found.evidence, found.values))


def texts(result: Any, arguments: Any = None) -> list[str]:
    return [source.text for source in evidence(result, arguments)]


def judged(text: str, given: Any, **envelope: Any) -> Any:
    document = payload(source_agent_id="assistant", call_chain=["assistant"], data={"text": text})
    return judge(document, envelope=envelope, trace_evidence=given)


def test_a_value_of_a_result_is_grounded_and_names_the_result() -> None:
    verdict = judged("The order of Mia Garcia costs 54.20.", evidence(ORDER))
    marks = {mark.text: mark for claim in verdict.claims for mark in claim.marks}
    assert not [code for code in codes(verdict) if code.startswith("grounding.")]
    assert marks["54.20"].where == ("tool_results[get_order #call_17].result.total: 54.2",)


def test_a_value_in_no_result_is_a_finding_although_there_is_no_context() -> None:
    assert "grounding.number" in codes(judged("The order costs 99.90 EUR.", evidence(ORDER)))
    assert not [code for code in codes(judged("The order costs 99.90 EUR.", ())) if code.startswith("grounding.")]


def test_a_handoff_need_not_restate_what_a_tool_returned() -> None:
    prices = "Acme Office, list of November: chair Linden 105.00 EUR, 60 in stock, delivery within 3 days."
    text = "Acme Office has 60 chairs in stock and delivers within 3 days. One chair costs 105.00 EUR."
    assert not [code for code in codes(judged(text, evidence(prices))) if code.startswith("grounding.")]
    assert "grounding.number" in codes(judged(text.replace("105.00", "89.50"), evidence(prices)))


@pytest.mark.parametrize(
    ("result", "arguments"),
    [
        ({"total": 1500}, {"total": 1500}),
        ("It is 1,500 EUR.", {"prompt": "Is it 1500 EUR?"}),
        ({"answer": "exactly 1500.00"}, ["1.5k"]),
    ],
)
def test_a_number_of_the_arguments_is_no_evidence(result: Any, arguments: Any) -> None:
    assert "grounding.number" in codes(judged("The order costs 1,500 EUR.", evidence(result, arguments)))
    assert "grounding.number" not in codes(judged("The order costs 1,500 EUR.", evidence(result)))


def test_dates_names_identifiers_and_quotations_of_the_arguments_are_no_evidence() -> None:
    said = "On May 12, 2024 Mia Garcia paid order #W4711 and said that nothing was missing at all."
    asked = {"text": "2024-05-12 by Mia Garcia: W4711", "note": "nothing was missing at all"}
    assert texts({"said": said}, asked) == ["On … … … paid order … and said that …."]
    assert [source.name for source in evidence({"Mia Garcia": 1}, asked)] == [
        "tool_results[get_order #call_17].result.… …0"
    ]


def test_what_the_tool_adds_to_the_arguments_is_evidence() -> None:
    found = texts({**ORDER, "note": "Order W123 left on 2024-05-12."}, {"order_id": "W123"})
    assert found == ["Mia Garcia", "Order … left on 2024-05-12.", "…", "delivered", "54.2"]


def test_the_time_of_a_flight_on_the_day_of_the_arguments_is_evidence() -> None:
    given = evidence({"departure": "2026-12-05T09:30:00+01:00"}, {"date": "2026-12-05"})
    assert not codes(judged("The flight leaves at 9:30 AM.", given))
    assert "grounding.date" in codes(judged("The flight leaves at 9:40 AM.", given))


def test_an_earlier_result_keeps_a_value_that_a_later_call_repeats() -> None:
    given = (*evidence({"id": "W123"}), *evidence({"id": "W123", "paid": True}, {"id": "W123"}, call_id="call_18"))
    assert "grounding.identifier" not in codes(judged("It is about order W123.", given))


def test_secrets_are_masked_before_anything_is_kept() -> None:
    found = capture({"user": "mia", "password": "hunter2-blue"}, None)
    assert b"hunter2" not in orjson.dumps([found.content, found.evidence, found.values])
    long = capture("x " * MOST_TEXT + "password=hunter2-blue room 4711", None)
    assert "hunter2-blue" not in long.values
    assert "4711" in long.values


def test_a_long_result_is_cut_and_its_later_values_stay_evidence() -> None:
    result = [{"id": f"W{number}", "name": f"Room {number}"} for number in range(100_000, 101_000)]
    found = capture(result, {"id": "W100999"})
    assert found.is_cut
    assert len(orjson.dumps(found.content)) < 1.5 * MOST_TEXT
    assert "W100998" in found.values
    assert "W100999" not in found.values
    assert found.sha256 == capture(result, None).sha256 != capture(result[1:], None).sha256


def test_a_long_result_is_cut_although_its_masked_beginning_fits() -> None:
    key = "-----BEGIN PRIVATE KEY-----\n" + ("a1B2" * 16 + "\n") * 1_100
    found = capture(f"It costs 99.10.\n{key}", None)
    assert found.content.startswith("It costs 99.10.\n")
    assert len(found.content) < 100
    assert (found.is_cut, found.values) == (True, ())


@pytest.mark.parametrize("name", ["a.b", "x] y: z", "\n", "á" * 3000, "tool/λ"])
def test_a_label_has_one_line_and_no_sign_of_a_path(name: str) -> None:
    label = label_of(name, "1")
    assert label.isprintable()
    assert len(label) < 100
    assert not set(label.removeprefix("tool_results[").removesuffix(" #1]")) & set(".:] \n")


@pytest.mark.parametrize(
    ("result", "arguments"),
    [(None, None), ("", ""), ([], {}), (True, [True]), ({"": {"": 0}}, {"": "0"}), (1e308, 10**30), ("…", "…")],
)
def test_any_json_is_captured(result: Any, arguments: Any) -> None:
    assert list(evidence(result, arguments)) == list(evidence(result, arguments))


def test_a_file_in_base64_takes_no_space_and_has_no_values() -> None:
    image = base64.b64encode(bytes(range(256)) * 350).decode()
    found = capture([{"type": "image", "source": {"data": image}}, f"data:image/png;base64,{image} of 120.00 EUR"])
    assert found.content == [{"type": "image", "source": {"data": "…"}}, "data:image/png;base64,… of 120.00 EUR"]
    assert (found.is_cut, found.values) == (False, ())
    assert found.sha256 != capture([{"type": "image", "source": {"data": image[:-8]}}]).sha256


def test_a_value_far_behind_in_the_arguments_is_no_evidence() -> None:
    assert capture("It costs 99.10.", {"command": f"{'word ' * 20_000} 99.10"}).evidence == "…"


@pytest.mark.parametrize(
    ("result", "key"),
    [
        ("It costs 4,711.50 EUR.", "4711.50"),
        ({"4711.50": True}, "4711.50"),
        ("The order is W4711.", "W4711"),
        ("Mia Garcia paid.", "Mia Garcia"),
        ({"Garcia": {"paid": True}}, "Garcia"),
        ("It said that nothing was missing at all.", "nothing was missing at all"),
    ],
)
def test_a_key_of_the_arguments_is_no_evidence(result: Any, key: str) -> None:
    found = capture(result, {"lines": [{key: 1}]})
    assert key.casefold() not in orjson.dumps(found.evidence).decode().replace(",", "").casefold()


@pytest.mark.parametrize(
    ("result", "arguments", "kept"),
    [
        ("It was mia garcia of Rome.", {"by": "Paid by Mia Garcia"}, "It was … … of Rome."),
        ("It was mia garcia of Rome.", {"name": "Mia Garcia"}, "It was … of Rome."),
        ("Our return policy is free.", {"query": "return policy", "lang": "is"}, "Our return policy is free."),
        ("It was garcia.", {"name": "García"}, "It was …."),
        ("Lowe's is open.", {"shop": "Lowe's"}, "… is open."),
        ("Deutsche bank is open.", {"shop": "Deutsche bank"}, "… is open."),
        ("株式会社アクメ は良い。", {"q": "株式会社アクメ"}, "… は良い。"),
        ('{"query": "mia garcia", "found": []}', {"query": "mia garcia"}, '{"query": "…", "found": []}'),
        ("No order of «mia garcia», mia or garcia.", {"query": "mia garcia"}, "No order of «…», mia or garcia."),
        ("It was the last one.", {"mode": "the"}, "It was the last one."),
        ("No: nothing was missing at all.", {"prompt": "Say that nothing was missing at all!"}, "No: …."),
        ("It was lost in the post.", ["a long filler of words"] * 9 + ["lost in the post"], "It was …."),
        ("It was lost.", {f"a long filler of words {n}": 0 for n in range(60)} | {"in the post": 0}, "It was lost."),
        ("It is in the post.", {f"a long filler of words {n}": 0 for n in range(60)} | {"in the post": 0}, "It is …."),
    ],
)
def test_words_of_the_arguments_are_no_evidence(result: str, arguments: Any, kept: str) -> None:
    assert capture(result, arguments).evidence == kept


@pytest.mark.parametrize(
    ("result", "arguments"),
    [
        ("Paid 20.99 on 2026-02-20 at 10:20, order A-20-7, total 1,020.00.", {"limit": 20}),
        ("See https://example.com/orders/4711 of mia@example.com.", {"host": "example.com", "by": "mia"}),
        ("It took 19 days, and 1:05 minutes.", {"about": "Covid-19", "rate": 1.05}),
    ],
)
def test_values_keep_the_parts_that_the_arguments_have(result: str, arguments: Any) -> None:
    assert capture(result, arguments).evidence == result


@pytest.mark.parametrize(
    ("said", "result", "kept"),
    [
        ("Mu\u0308ller zahlt nie", "Herr Müller zahlt nie. Mu\u0308ller zahlt nie!", "Herr …. …!"),
        ("Acme\u2122 sells boats", "So Acme\u2122 sells boats.", "So …."),
        ("が ありません です", "はい が ありません です の", "はい … の"),
    ],
)
def test_words_are_equal_in_every_form_of_unicode(said: str, result: str, kept: str) -> None:
    assert capture(result, {"text": said}).evidence == kept


def test_names_of_fields_stay_in_a_result() -> None:
    result = {"order_id": 7, "orderId": "status", "status": "The Status is new."}
    assert capture(result, {"order_id": None, "orderId": True, "status": False}).evidence == result


def test_a_value_behind_many_others_in_the_arguments_is_no_evidence() -> None:
    assert capture("It costs 99.10.", {"a": [1] * 20_000, "b": 99.1}).evidence == "…"
    assert capture("It costs 99.10.", {"a": [1] * 19_998, "b": 99.1}).evidence == "It costs …."
