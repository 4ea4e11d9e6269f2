"""Tests of the payload protocol: recognised payloads, accepted payloads, and the message of a rejection."""

import asyncio
import json
import logging
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from handoffaudit.validation import (
    HandoffPayload,
    HandoffProtocol,
    HandoffRejectedError,
    HandoffResult,
    HandoffValidationError,
    SemanticValidator,
    StrictnessConfig,
    ValidationStrictness,
)
from handoffaudit.validation.formats import schema

from .support import PAYLOAD

FIELDS = {name: PAYLOAD[name] for name in HandoffPayload.model_json_schema()["required"]}


def payload(**changes: Any) -> HandoffPayload:
    return HandoffPayload(**{**FIELDS, **changes})


class Model:
    """A service with a fixed answer that records its questions."""

    def __init__(self, content: object = '{"valid": true, "issues": []}') -> None:
        self.content = content
        self.calls: list[dict[str, Any]] = []

    async def completion(self, **asked: Any) -> dict[str, Any]:
        self.calls.append(asked)
        return {"content": self.content}


def protocol(model: Any = None) -> HandoffProtocol:
    return HandoffProtocol(StrictnessConfig(), SemanticValidator(model) if model else None)


def validate(handoff: HandoffPayload, model: Any = None, context: dict[str, Any] | None = None) -> HandoffResult:
    return asyncio.run(protocol(model).validate(handoff, context))


def unchecked(**changes: Any) -> HandoffPayload:
    return HandoffPayload.model_construct(**{**FIELDS, **changes})


def test_what_a_payload_is_without_being_told() -> None:
    before = datetime.now(UTC)
    made = payload()
    assert UUID(made.handoff_id).version == 4
    assert made.handoff_id != payload().handoff_id
    assert (made.context_refs, made.confidence) == ([], 1.0)
    assert before <= made.timestamp <= datetime.now(UTC)
    assert made.timestamp.utcoffset() == timedelta(0)


def test_the_model_says_what_the_schema_of_the_format_says() -> None:
    modelled, published = HandoffPayload.model_json_schema(), schema("payload")
    # The server takes the tenant from the key, derives the chain from the trace, and reads a text as data.
    assert sorted(modelled["required"]) == sorted([*published["required"], "tenant_id", "call_chain"])
    assert modelled["properties"].pop("data")["type"] in published["properties"]["data"]["type"]
    told = ("type", "minLength", "minItems", "minimum", "maximum")
    for name, rule in modelled["properties"].items():
        held = published["properties"][name]
        assert {key: rule[key] for key in told if key in rule} == {key: held[key] for key in told if key in held}, name


@pytest.mark.parametrize("name", ["source_agent_id", "target_agent_id", "tenant_id"])
def test_names_have_a_character(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        payload(**{name: ""})
    assert caught.value.errors()[0]["loc"] == (name,)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"call_chain": []}, "at least 1 item"),
        ({"call_chain": ["planner"]}, r'source_agent_id "researcher" must appear in call_chain.*source_not_in_chain'),
        ({"target_agent_id": "planner"}, r'target "planner" must NOT appear in call_chain.*chain\.circular'),
        (
            {"target_agent_id": "researcher"},
            r"to itself.*must NOT appear in call_chain.*chain\.self_handoff",
        ),
        ({"confidence": 1.1}, "less than or equal to 1"),
        ({"confidence": -0.1}, "greater than or equal to 0"),
        ({"data": "text"}, "valid dictionary"),
        ({"handoff_type": "x" * 300}, "over the limit of 200"),
    ],
)
def test_a_broken_rule_raises(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        payload(**changes)


def test_a_reason_does_not_let_a_target_into_the_chain() -> None:
    with pytest.raises(ValidationError, match="circular_with_reason"):
        payload(target_agent_id="planner", handoff_reason="The figures need a second check.")


def test_a_long_chain_is_a_payload() -> None:
    assert len(payload(call_chain=[*"abcdefgh", "researcher"]).call_chain) == 9


def test_data_that_is_nested_too_deep_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(ValidationError, match="nested more than 64 levels deep"):
        payload(data=deep)


def test_low_confidence_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    payload(confidence=0.5)
    assert caplog.records == []
    low = payload(confidence=0.49)
    (record,) = caplog.records
    assert (record.levelno, record.name.partition(".")[0]) == (logging.WARNING, "handoffaudit")
    assert low.handoff_id in record.getMessage()
    assert "0.49" in record.getMessage()


def test_a_time_without_an_offset_is_utc() -> None:
    assert payload(timestamp="2026-02-01T08:00:00").timestamp == datetime(2026, 2, 1, 8, tzinfo=UTC)


def test_strictness() -> None:
    config = StrictnessConfig()
    for name in ("deal_data", "customer_info", "research_result", "never_heard_of"):
        assert config.get_strictness(name) is ValidationStrictness.STRICT
    for name in ("status_update", "notification"):
        assert config.get_strictness(name) is ValidationStrictness.LENIENT
    config.register_rule("deal_data", ValidationStrictness.LENIENT)
    assert config.get_strictness("deal_data") is ValidationStrictness.LENIENT
    assert StrictnessConfig().get_strictness("deal_data") is ValidationStrictness.STRICT
    assert (ValidationStrictness.STRICT, ValidationStrictness.LENIENT) == ("strict", "lenient")
    with pytest.raises(ValueError, match="loose"):
        config.register_rule("deal_data", "loose")  # type: ignore[arg-type]


def test_a_result_has_defaults() -> None:
    result = HandoffResult(valid=True, strictness=ValidationStrictness.LENIENT)
    assert (result.structural_issues, result.semantic_issues, result.validator_model) == ([], [], None)
    assert datetime.now(UTC) - result.validated_at < timedelta(seconds=60)


@pytest.mark.parametrize("wrong", [{"valid": "no"}, {"strictness": "wat"}, {"structural_issues": "call_chain"}])
def test_a_result_of_other_types_is_refused(wrong: dict[str, Any]) -> None:
    right = {"valid": False, "strictness": "strict"}
    assert HandoffResult(**right).model_dump()["strictness"] is ValidationStrictness.STRICT
    with pytest.raises(ValidationError):
        HandoffResult(**{**right, **wrong})


def test_every_validation_is_logged() -> None:
    broken = unchecked(call_chain=[], handoff_id="h-1")
    with capture_logs() as logs:
        validate(payload(), Model('{"valid": false, "issues": ["x"]}'))
        validate(broken)
    told = [entry for entry in logs if entry["log_level"] == "info"]
    assert [(entry["event"], entry["valid"]) for entry in told] == [
        ("semantic_validated", False),
        ("handoff_validated", False),
        ("handoff_validated", False),
    ]
    assert [entry["issues"] for entry in told] == [["x"], ["x"], ["call_chain: call_chain has no entries."]]
    assert told[2]["handoff_id"] == "h-1"


UNCONFIGURED = """
import asyncio, logging, sys
from handoffaudit.validation import HandoffPayload, HandoffProtocol, StrictnessConfig
if sys.argv[1:]:
    logging.basicConfig(level=logging.DEBUG)
made = HandoffPayload(source_agent_id="a", target_agent_id="b", tenant_id="t", call_chain=["a"],
                      handoff_type="notification", data={"text": "Done."}, handoff_id="h-1", confidence=0.4)
asyncio.run(HandoffProtocol(StrictnessConfig()).validate(made))
"""


def test_logs_of_an_application_without_structlog_go_through_logging() -> None:
    """Standard output belongs to the application, so nothing is printed there."""
    for arguments, shown in (((), False), (("log",), True)):
        done = subprocess.run(
            [sys.executable, "-c", UNCONFIGURED, *arguments], capture_output=True, text=True, check=True, timeout=300
        )
        assert done.stdout == ""
        assert ("event='handoff_validated' handoff_id='h-1' valid=True issues=[]" in done.stderr) is shown
        assert "low_confidence" in done.stderr


def test_a_payload_made_without_validation_is_caught() -> None:
    made = unchecked(source_agent_id="", call_chain=["planner"], confidence=7, data=["no", "object"])
    del made.__dict__["tenant_id"]
    result = validate(made)
    assert (result.valid, result.strictness, result.validator_model) == (False, "strict", None)
    assert result.structural_issues == [
        "confidence: confidence is 7, above the highest allowed value, 1.",
        "source_agent_id: source_agent_id is empty.",
        "data: data is a list, not an object.",
        "tenant_id: tenant_id is missing.",
    ]


@pytest.mark.parametrize(("data", "seen"), [("text", 'a string ("text")'), (None, "null")])
def test_data_of_a_payload_in_code_is_an_object(data: str | None, seen: str) -> None:
    assert validate(unchecked(data=data)).structural_issues == [f"data: data is {seen}, not an object."]


def test_a_payload_that_was_changed_is_judged_as_it_is() -> None:
    made = payload()
    assert validate(made).valid
    made.target_agent_id = "planner"
    (issue,) = validate(made).structural_issues
    assert issue.startswith('target_agent_id: The target "planner" must NOT appear in call_chain')


def test_the_engines_other_layers_judge_too() -> None:
    words = " ".join(f"word{number}" for number in range(3000))
    (issue,) = validate(payload(data={"text": words})).structural_issues
    assert "over its budget of 2,000" in issue
    claims = {f"claim_{number}": "Nobody has ever looked this up." for number in range(4)}
    result = validate(payload(data={**claims, "evidence_refs": {}}))
    assert (result.valid, result.structural_issues) == (False, [])
    assert "4 of 4 claims" in result.semantic_issues[0]


def test_what_waits_for_a_person_is_not_valid_until_approved() -> None:
    long = [*"abcdef", "researcher"]
    (issue,) = validate(payload(call_chain=long)).structural_issues
    assert issue.startswith("call_chain: ")
    assert validate(payload(call_chain=long, user_approved=True)).valid


def test_values_that_are_no_json_are_judged_by_their_text() -> None:
    made = payload(data={"at": datetime(2026, 2, 1, tzinfo=UTC), "id": UUID(int=1), "tags": {"a"}})
    assert validate(made).valid
    loop: dict[str, Any] = {}
    loop["again"] = [loop, loop]
    assert validate(unchecked(data=loop)).valid


def test_lenient_types_are_not_asked_about() -> None:
    model = Model()
    assert validate(payload(handoff_type="status_update"), model).validator_model is None
    assert model.calls == []


def test_the_model_is_asked_only_about_sound_payloads() -> None:
    model = Model()
    assert not validate(unchecked(call_chain=[]), model).valid
    assert model.calls == []


def test_the_model_decides_for_strict_types() -> None:
    result = validate(payload(), Model('{"valid": false, "issues": ["text: five is made up"]}'), {"answers": 3})
    assert (result.valid, result.validator_model) == (False, "fast")
    assert (result.structural_issues, result.semantic_issues) == ([], ["text: five is made up"])
    accepted = validate(payload(), Model())
    assert (accepted.valid, accepted.semantic_issues, accepted.validator_model) == (True, [], "fast")


def test_an_outage_lets_it_pass_and_says_so() -> None:
    result = validate(payload(), Model("I cannot say."))
    assert (result.valid, result.validator_model) == (True, "fast")
    assert result.semantic_issues == ["semantic_validation_unavailable"]


def test_strict_without_a_validator_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert validate(payload()).valid
    (record,) = (one for one in caplog.records if one.levelno == logging.WARNING)
    assert "no semantic validator" in record.getMessage()
    caplog.clear()
    assert validate(payload(handoff_type="notification")).valid
    assert [one.levelno for one in caplog.records] == [logging.INFO]


def test_a_valid_payload_is_handed_on() -> None:
    made = payload()
    assert asyncio.run(protocol().validate_or_reject(made)) is made


def test_the_text_of_a_rejection() -> None:
    made = unchecked(handoff_id="h-1", call_chain=[], confidence=3)
    with pytest.raises(HandoffRejectedError) as caught:
        asyncio.run(protocol().validate_or_reject(made))
    error = caught.value
    assert str(error) == (
        "Handoff rejected [strict]: handoff_id=h-1, source=researcher -> target=writer, type=research_result, "
        "reasons=[call_chain: call_chain has no entries.; confidence: confidence is 3, above the highest allowed "
        "value, 1.]"
    )
    assert isinstance(error, HandoffValidationError)
    assert (error.payload, error.result.valid) == (made, False)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301


def test_a_rejection_names_what_the_model_found() -> None:
    model = Model(json.dumps({"valid": False, "issues": ["a: wrong", "b: wrong"]}))
    with pytest.raises(HandoffRejectedError, match=r"reasons=\[a: wrong; b: wrong\]$"):
        asyncio.run(protocol(model).validate_or_reject(payload(), {"text": "Nobody answered."}))
    assert "Nobody answered." in model.calls[0]["messages"][0]["content"]
