"""Tests that any document in any format under any policy gets one verdict, whatever the order of its keys."""

import random
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoffaudit.validation.claims import parse_fields
from handoffaudit.validation.config import Requirements
from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.verdict import Verdict, verdict_to_dict
from tests.scale import cases, examples

from .documents import Submission, strictest
from .fuzzing import ANY_PATH, EXAMPLES, OBJECTS, RULE_SETS, SCHEMAS, VALUES, broken_examples, shuffled

FORMS = st.none() | st.sampled_from(sorted(BY_NAME))
DOCUMENTS = broken_examples() | OBJECTS
EVIDENCE = st.lists(st.fixed_dictionaries({"source": VALUES, "content": VALUES}) | VALUES, max_size=4)
MANY = settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def form_for(document: dict[str, Any], form: str | None) -> str:
    """Return the format to judge a document by: an unrecognised document has a verdict only under a named format."""
    recognised = (one.name for one in BY_NAME.values() if one.recognise(document))
    return form or next(recognised, "payload")


def told(verdict: Verdict) -> dict[str, Any]:
    """Return the content of a verdict in a fixed order."""
    plain = verdict_to_dict(verdict)
    return {
        "outcome": plain["outcome"],
        "score": plain["quality_score"],
        "hash": plain["output_hash"],
        "issues": sorted((issue["code"], issue["json_pointer"], issue["severity"]) for issue in plain["issues"]),
        "claims": sorted((claim["json_pointer"], claim["claim_type"]) for claim in plain["claims"]),
        "values": sorted(
            (claim["json_pointer"], value["start"], value["end"], value["kind"], value["status"])
            for claim in plain["claims"]
            for value in claim["values"]
        ),
        "layers": [(layer["name"], layer["status"]) for layer in plain["layers"]],
    }


def assert_is_whole(verdict: Verdict) -> None:
    text = orjson.dumps(verdict_to_dict(verdict))
    # An escaped backslash in front of it is text about a null character, which databases store.
    assert b"\\u0000" not in text.replace(rb"\\", b"")
    assert 0.0 <= verdict.quality_score <= 1.0
    assert {layer.status.value for layer in verdict.layers} <= {"passed", "failed", "skipped"}
    assert verdict.issues or verdict.outcome == "accepted"


def test_the_examples_are_of_every_format() -> None:
    assert {form_for(document, None) for document in EXAMPLES.values()} == set(BY_NAME)


@MANY
@given(DOCUMENTS, FORMS, OBJECTS, EVIDENCE)
def test_any_document_with_any_context_and_evidence(
    document: dict[str, Any], form: str | None, context: dict[str, Any], evidence: list[Any]
) -> None:
    sent = Submission(document, context, evidence, form=form_for(document, form))
    verdict = strictest(sent)
    assert_is_whole(verdict)
    assert verdict_to_dict(strictest(sent)) == verdict_to_dict(verdict)


@MANY
@given(DOCUMENTS, st.lists(RULE_SETS, max_size=3), st.lists(ANY_PATH, max_size=5) | st.none())
def test_any_rules_and_claim_fields(document: dict[str, Any], rules: list[Any], fields: list[str] | None) -> None:
    try:
        usable = None if fields is None else parse_fields(fields)
    except InvalidConfigError:
        usable = ("*", "*.*")
    demands = Requirements(rules=tuple(rules), claim_fields=usable)
    assert_is_whole(strictest(Submission(document, {"a": 1}, [{"source": "s"}], demands, form_for(document, None))))


@MANY
@given(SCHEMAS, VALUES | OBJECTS)
def test_any_schema_of_the_sender_or_of_the_type(schema: Any, value: Any) -> None:
    document = {**EXAMPLES["output"], "parsed_output": value if isinstance(value, dict) else {"a": value}}
    document["envelope"] = {**document["envelope"], "expected_output_schema": schema}
    demands = Requirements(schema=DataSchema(schema))
    assert_is_whole(strictest(Submission(document, demands=demands, form="output")))


@MANY
@given(DOCUMENTS, OBJECTS, EVIDENCE, st.lists(RULE_SETS, max_size=2), st.integers(0, 999))
def test_the_order_of_keys_does_not_matter(
    document: dict[str, Any], context: dict[str, Any], evidence: list[Any], rules: list[Any], seed: int
) -> None:
    source = random.Random(seed)  # noqa: S311
    form, demands = form_for(document, None), Requirements(rules=tuple(rules))
    first = strictest(Submission(document, context, evidence, demands, form))
    other = [shuffled(part, source) for part in (document, context, evidence)]
    assert told(strictest(Submission(other[0], other[1], other[2], demands, form))) == told(first)


@pytest.mark.parametrize("seed", cases(range(12), range(3)))
def test_the_order_of_many_numbers_and_names_does_not_matter(seed: int) -> None:
    """The document holds more of them than the layers compare."""
    source = random.Random(seed)  # noqa: S311
    context = {
        f"k{at}": f"{source.choice(['Ann', 'Bob'])} Berg{at} paid {source.randint(1, 400)}.5" for at in range(90)
    }
    claim = "; ".join(f"In all Anna Borg{at} paid {source.randint(1, 900)} or {at}.25" for at in range(40))
    data = {f"c{at}": claim for at in range(3)} | {"n": {"m": [1, 2, 3]}}
    document = {**EXAMPLES["payload"], "data": data}
    first = strictest(Submission(document, context))
    second = strictest(Submission(shuffled(document, source), shuffled(context, source)))
    assert told(second) == told(first)
    assert any(issue.layer == "grounding" for issue in first.issues)
