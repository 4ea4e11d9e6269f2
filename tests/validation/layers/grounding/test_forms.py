"""Forms of text around a value: what asserts a fact, and what is a plan, code, data, a formula or a log."""

from collections.abc import Callable

import pytest

from handoffaudit.validation.layers.grounding.engine import ground
from handoffaudit.validation.layers.grounding.forms import Form, TextForms
from handoffaudit.validation.layers.grounding.records import leaves
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from tests.elapsed import grows_linearly
from tests.scale import size

INDEX = SourceIndex.of(list(leaves("The question is which town has the oldest bridge.", "context.question")))


def form_of(text: str, value: str) -> Form:
    at = text.index(value)
    return TextForms(text).of(at, at + len(value))


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("The bridge was built in 4711 and is still used.", Form.STATEMENT),
        ("```\nRevenue was 4711 euros in May.\n```", Form.STATEMENT),
        ("```python\nimport os\nlimit = 4711\n```", Form.CODE),
        ("<code>\nprint(web_search(4711))\n</code>", Form.CODE),
        ("<code>\nprint('\u0130', web_search(4711))\n</code>", Form.CODE),
        ("import os\nlimit = 4711\nprint(limit)\nThe end.", Form.CODE),
        ("Run `head -n 4711` first.", Form.CODE),
        ('Ledger: {"reason": "4711 is done", "done": true}', Form.DATA),
        ("\\( x = \\frac{4711}{3} \\)", Form.FORMULA),
        ("The mass is 3 * 4711 = m", Form.FORMULA),
        ('  File "app.py", line 4711, in run', Form.LOG),
        ("app/main.py:216: UserWarning: resolved 4711 instead", Form.LOG),
        ("It is at ../data/validation/4711/file.csv now.", Form.LINK),
        ("edit 4711", Form.LINK),
        ("Here 2 * 3 = 6. The bridge was built in 4711 by monks.", Form.STATEMENT),
        ("The bridge has `4711` stones.", Form.STATEMENT),
        ("`The bridge has 4711 stones.`", Form.STATEMENT),
        ("`SELECT name FROM bridges LIMIT 4711`", Form.CODE),
        ("`x = 4711`", Form.CODE),
        ("You are right: the bridge has 4711 stones.", Form.STATEMENT),
        ("Your refund is 4711 euros.", Form.STATEMENT),
        ("Review of the bridge: it has 4711 stones.", Form.STATEMENT),
        ("The output about bridges says 4711 stones.", Form.STATEMENT),
        ("It has about 4711 stones.", Form.GUESS),
        ("Your task is done, and the bridge has 4711 stones.", Form.PLAN),
        ("Finally, the bridge has 4711 stones.", Form.STATEMENT),
        ("After a repair, the bridge has 4711 stones.", Form.STATEMENT),
        ("Report: the bridge has 4711 stones.", Form.STATEMENT),
        ("Finally, report the 4711 stones.", Form.PLAN),
        ("Please find 4711 more towns.", Form.PLAN),
        ("Is it 4711 or less?", Form.PLAN),
        ("You are an assistant. A page has 4711 words.", Form.PLAN),
        ("## Plan\n- Search for it\n\nThe bridge has 4711 stones.", Form.STATEMENT),
        ("# Next\n\nThe bridge has 4711 stones.", Form.PLAN),
        ("<code> The bridge has 4711 stones.", Form.STATEMENT),
        ("\\( The bridge has 4711 stones. \\)", Form.STATEMENT),
        ("## Plan\n- The first town with 4711 people", Form.PLAN),
        ("It has roughly 4711 people.", Form.GUESS),
        ("EDUCATED GUESSES\n- The town has 4711 people", Form.GUESS),
    ],
)
def test_the_form_is_told_by_the_text_around_a_value(text: str, form: Form) -> None:
    assert form_of(text, "4711") is form


def test_only_what_asserts_a_fact_counts() -> None:
    text = "The bridge has 4711 stones.\n## Plan\n1. Look up 4712 on the web.\n```python\nimport re\nx = 4713\n```"
    assert [(mark.text, mark.counts) for mark in ground(text, INDEX)] == [
        ("4711", True),
        ("4712", False),
        ("4713", False),
    ]


def test_keys_and_marks_of_embedded_json_are_no_identifiers_and_no_quotations() -> None:
    text = 'Updated ledger:\n{"step_2": {"reason": "The town has not been found so far", "population": 4711}}\nGo on.'
    assert [(mark.kind, mark.text) for mark in ground(text, INDEX) if mark.counts] == [("number", "4711")]


def test_a_fence_around_prose_hides_nothing() -> None:
    assert [mark.text for mark in ground("```\nThe bridge has 4711 stones.\n```", INDEX) if mark.counts] == ["4711"]


def test_a_bracket_that_is_no_json_hides_nothing() -> None:
    assert [mark.text for mark in ground("[Note] The bridge has 4711 stones.", INDEX) if mark.kind == "number"] == [
        "4711"
    ]


def test_a_name_counts_where_it_changed() -> None:
    index = SourceIndex.of(
        list(leaves("The offer of Nordfrost and the answer of Maria Keller came. " * 60, "context.mail"))
    )
    changed = "We have the answer of Maria Kellner and the bridge of Sundsvall,\nand go on with them:\n- prices"
    counts = {mark.text: mark.counts for mark in ground(changed, index) if mark.kind == "name"}
    assert counts == {"Kellner": True, "Sundsvall": False}


@pytest.mark.parametrize(
    "unit",
    [
        "`",
        "```\n",
        "<code>",
        "{",
        '[{"a":',
        "\\(",
        "\\[",
        "$$ ",
        "\\begin{a}",
        "$x=",
        "# Plan\n",
        "a = 1\n",
        "4711 ",
        "**a**:\n",
        "1. x\n",
    ],
)
def test_a_hostile_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    def find(size: int) -> Callable[[], Form]:
        text = unit * (size // len(unit)) + " 4711"
        return lambda: TextForms(text).of(len(text) - 4, len(text))

    assert grows_linearly(find, size(8_000))
