"""Tests of the conversion of labelled lines into handoffs by the description of the data."""

import pytest

from handoffaudit.evaluation.items import KINDS
from tests.evaluation.support import grounded, measured


def items_of(line, beside=lambda name: None):
    kind = KINDS.recognise(line)
    assert kind is not None
    return list(kind.items(line, beside))


def test_structured_context_is_read_from_a_python_literal():
    line = grounded("It has 4 cores.", hallucinated=False, context="{'cores': 4, 'tags': ['a', None]}")
    assert items_of(line | {"context_format": "python-literal"})[0].envelope.context == {
        "cores": 4,
        "tags": ["a", None],
    }
    assert items_of(line)[0].envelope.context == {"text": "{'cores': 4, 'tags': ['a', None]}"}


HOSTILE = ["__import__('os').getcwd()", "[" * 5000, "x" * 2_000_000, "{'a': " * 70 + "1" + "}" * 70]


@pytest.mark.parametrize("context", HOSTILE, ids=["call", "brackets", "long", "deep"])
def test_a_hostile_literal_is_refused(context):
    line = grounded("It has 4 cores.", hallucinated=False, context=context, context_format="python-literal")
    with pytest.raises(ValueError, match=r"^context is (not a Python literal|a literal of|nested more than)"):
        items_of(line)
    result = measured(line)
    assert (result.unread_lines, result.tally.items) == (1, 0)


def test_reviews_are_labels():
    document = {
        "source_agent_id": "researcher", "target_agent_id": "writer", "tenant_id": "default",
        "call_chain": ["researcher"], "handoff_type": "research_result", "data": {"text": "It costs 999 EUR."},
    }  # fmt: skip
    context = {"page": "It costs 240 EUR."}
    declined = {"document": document, "context": context, "review": {"decision": "declined", "codes": []}}
    approved = {"document": document, "context": context, "review": {"decision": "approved"}}
    figures = measured(declined, approved).figures()
    assert (figures["kind"], figures["faulty"], figures["sound"], figures["flagged"]) == ("reviews", 1, 1, 2)
    undecided = measured(declined | {"review": {"decision": "perhaps"}})
    assert undecided.unread == ["line 1 cannot be used: review.decision is 'perhaps', not one of declined, approved"]


@pytest.mark.parametrize("field", [{"trace_id": [1]}, {"evidence": 7}, {"context": "text"}, {"step": "3"}])
def test_a_review_with_a_field_of_another_type_is_left_out(field):
    document = {"source_agent_id": "researcher", "target_agent_id": "writer", "data": {"text": "It costs 999 EUR."}}
    (name,) = field
    result = measured({"document": document, "review": {"decision": "declined"}, **field})
    assert (result.unread_lines, result.tally.items) == (1, 0)
    assert f"cannot be used: {name} is a" in result.unread[0]


@pytest.mark.parametrize(("start", "end"), [(0, 10**12), (-1, 3), (5, 4)])
def test_a_span_outside_of_the_text_is_refused(start, end):
    result = measured(grounded("It costs 999 EUR.", hallucinated=True, spans=[(start, end)]))
    assert (result.unread_lines, result.tally.items) == (1, 0)
    assert "response has 17 characters" in result.unread[0]
