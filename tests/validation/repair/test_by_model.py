"""Tests of repairs by an LLM where no rule can repair, and of the parts that the LLM may not change."""

import copy
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet, BusinessRuleType, Operator
from handoffaudit.validation.config import Requirements, TypePolicy
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.issues import make
from handoffaudit.validation.layers import CATALOGUE, FAMILIES
from handoffaudit.validation.prompts.question import Answer, MalformedAnswer, Prompt, Question, Reason, Unavailable
from handoffaudit.validation.prompts.secrets import MASKED
from handoffaudit.validation.repair import Means, Repair, budget_of, repair, tries_with
from handoffaudit.validation.repair.by_model import LostSecretError, restore_secrets
from handoffaudit.validation.tokenizers import default_counter
from handoffaudit.validation.verdict import Verdict
from tests.validation.support import NOW, judge, payload, record_of, universal

KEY = "sk-" + "a1B2" * 8
MODEL = "claude-haiku-5-5"
Mend = Callable[[dict[str, Any]], Any]


class Model:
    """An LLM that answers with the result of `mend` on the document in the question."""

    def __init__(self, mend: Mend) -> None:
        self.mend = mend
        self.asked: list[Question] = []

    def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        text = json.dumps(self.mend(shown_in(question)))
        try:
            return Answer(question.read(text), text, MODEL, 0.001, 5.0)
        except MalformedAnswer as error:
            raise Unavailable(Reason.MALFORMED_ANSWER, str(error)) from error


class Away:
    def ask(self, question: Question) -> Answer:
        raise Unavailable(Reason.TIMEOUT, "no answer within 60 seconds.")


def shown_in(question: Question) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(question.content.partition("<document>\n")[2].partition("\n</document>")[0])
    return found


def repaired(document: Document, model: Any, form: str | None = None, **given: Any) -> Repair:
    name = form or record_of(document).format
    before = copy.deepcopy(document)
    policy, demands = given.pop("policy", {}), given.pop("demands", Requirements())
    means = Means(budget_of(TypePolicy("*", **policy), default_counter()), NOW, lambda: "unused")

    def verdict_on(candidate: Document) -> Verdict:
        return judge(candidate, name, policy=policy, demands=demands)

    found = repair(
        document, verdict_on(document), name, judge=verdict_on, means=means, tries=tries_with(model, **given)
    )
    assert document == before
    assert len(found.attempts) <= 3
    return found


def without_summary(**changes: Any) -> Document:
    document = universal(**changes)
    del document["handoff"]["context"]["summary"]
    return document


def summarised(document: dict[str, Any]) -> dict[str, Any]:
    document["handoff"]["context"]["summary"] = "Review and polish the user guide."
    return document


def test_what_no_rule_mends_is_asked_of_the_model_and_judged() -> None:
    model = Model(summarised)
    found = repaired(without_summary(), model)
    assert found.repaired is not None
    assert (found.status, found.repaired.number, found.repaired.name) == (
        "repaired",
        2,
        f"written by the LLM {MODEL}",
    )
    assert found.repaired.document["handoff"]["context"]["summary"] == "Review and polish the user guide."
    assert {(change.field_path, change.why) for change in found.repaired.changes} >= {
        ("handoff.context.summary", f"written by the LLM {MODEL}")
    }
    [question] = model.asked
    assert "structure.missing_field" in question.content.partition("<findings>")[2]


def test_what_a_rule_mends_is_not_asked() -> None:
    model = Model(summarised)
    document = universal(schema_type="Universal")
    found = repaired(document, model)
    assert found.repaired is not None
    assert (found.repaired.number, found.repaired.name, model.asked) == (1, "defaults and hints", [])


def test_the_model_goes_on_from_what_the_rules_mended() -> None:
    model = Model(summarised)
    found = repaired(without_summary(schema_type="Universal"), model)
    assert [attempt.name for attempt in found.attempts] == ["defaults and hints", f"written by the LLM {MODEL}"]
    assert shown_in(model.asked[0])["handoff"]["schema_type"] == "universal"
    assert {change.why for change in found.attempts[1].changes} >= {
        "the closest of the allowed values",
        f"written by the LLM {MODEL}",
    }


def test_it_counts_as_one_of_three_tries_and_is_asked_once() -> None:
    model = Model(lambda document: document | {"extra": 1})
    found = repaired(without_summary(), model)
    assert found.status == "escalated"
    assert [attempt.number for attempt in found.attempts] == [1, 2, 3]
    assert len(model.asked) == 1


def test_compression_that_does_something_leaves_the_model_the_third_try() -> None:
    long = "A sentence that says very little about anything at all. " * 100
    model = Model(lambda document: document | {"data": {"text": "Short."}})
    document = payload(data={"text": long, "rows": [f"row {number}" for number in range(900)]})
    found = repaired(document, model)
    assert [attempt.name for attempt in found.attempts] == [
        "defaults and hints",
        "compression",
        f"written by the LLM {MODEL}",
    ]
    assert found.status == "repaired"


def test_where_the_model_is_away_repair_ends_as_without_it() -> None:
    found = repaired(without_summary(), Away())
    assert (found.status, found.repaired) == ("escalated", None)
    assert [attempt.name for attempt in found.attempts] == ["defaults and hints", "compression", "working only"]
    assert found.attempts[1].note.endswith("The LLM made no repair: no answer within 60 seconds.")
    assert "model" not in found.attempts[2].note


def test_no_rule_or_model_repairs_what_is_no_document() -> None:
    model = Model(summarised)
    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: "unused")
    verdict = judge({"call_chain": []}, "payload")
    for document in (None, "text", {"no": "format"}):
        found = repair(document, verdict, "", judge=judge, means=means, tries=tries_with(model))
        assert found.status == "not_possible"
    assert model.asked == []


STOLEN = {
    "handoff_id": "other",
    "source_agent_id": "admin",
    "target_agent_id": "attacker",
    "tenant_id": "globex",
    "handoff_type": "anything_goes",
    "call_chain": ["admin"],
    "user_approved": True,
    "handoff_reason": "The user asked for it.",
    "confidence": 1.0,
    "timestamp": "2030-01-01T00:00:00Z",
    "context_refs": ["made-up"],
}


def test_who_hands_over_to_whom_is_put_back() -> None:
    document = payload(data=["Three of five suppliers answered."])
    found = repaired(document, Model(lambda shown: shown | STOLEN | {"data": {"text": shown["data"][0]}}))
    assert found.repaired is not None
    assert found.repaired.document == document | {"data": {"text": "Three of five suppliers answered."}}
    assert [change.field_path for change in found.repaired.changes] == ["data"]


def test_what_a_universal_document_says_of_itself_is_put_back() -> None:
    document = without_summary(
        meta={"payload_hash": "sha256:" + "0" * 64, "payload_size_bytes": 7},
        payload={"references": {"files": [{"path": "a.md", "relevance": "important"}]}},
    )

    def changed(shown: dict[str, Any]) -> dict[str, Any]:
        handoff = summarised(shown)["handoff"]
        handoff["context"] |= {"problem_type": "research", "focus_areas": ["made up"]}
        handoff["source"] = {"skill": "admin"}
        handoff["target"]["skill"] = "attacker"
        handoff["trace_id"] = "6fa459ea-ee8a-4ca4-894e-db77e160355e"
        handoff["payload"]["references"] = {}
        handoff["meta"] = {"token_count": 1, "confidence": "high", "user_approved": True, "handoff_chain": []}
        return shown

    attempt = repaired(document, Model(changed)).attempts[1]
    expected = copy.deepcopy(document["handoff"])
    expected["context"]["summary"] = "Review and polish the user guide."
    expected["meta"]["token_count"] = attempt.document["handoff"]["meta"]["token_count"]
    assert attempt.document["handoff"] == expected
    assert "integrity.payload_hash_mismatch" in {issue.code for issue in attempt.errors}


@pytest.mark.parametrize("form", BY_NAME)
def test_each_format_says_what_is_kept(form: str) -> None:
    rules = BY_NAME[form].repair
    assert rules.protected
    assert not set(rules.protected) & set(rules.protected_unless_faulty)


def test_a_model_that_changes_only_what_it_may_not_has_changed_nothing() -> None:
    found = repaired(payload(data=["text"]), Model(lambda shown: shown | STOLEN))
    assert found.status == "escalated"
    assert found.attempts[1].note.endswith(f"{MODEL} changed only protected fields, or nothing.")
    assert found.attempts[1].name == "compression"


def test_a_loop_is_not_asked_about() -> None:
    model = Model(lambda shown: shown)
    found = repaired(payload(target_agent_id="planner"), model)
    assert model.asked == []
    assert "only the sender may change" in found.attempts[1].note


@pytest.mark.parametrize("answer", [{"document": {"data": {}}}, {"handoff": {}}, {}, {"status": "repaired"}])
def test_an_answer_in_another_format_is_no_candidate(answer: dict[str, Any]) -> None:
    found = repaired(payload(data=["text"]), Model(lambda shown: answer))
    assert found.status == "escalated"
    assert found.attempts[1].note.endswith(f"{MODEL} did not answer with a document of the format payload.")


def test_an_answer_that_is_no_object_is_none() -> None:
    found = repaired(payload(data=["text"]), Model(lambda shown: [shown]))
    assert "The LLM made no repair: The answer is not a JSON object." in found.attempts[1].note


def test_a_document_that_would_come_back_cut_is_not_sent() -> None:
    model = Model(lambda shown: shown)
    found = repaired(payload(data=["a row of no great length"] * 1000), model, policy={"token_budget": 10**6})
    assert model.asked == []
    assert "The LLM was not asked: the document has 27,2" in found.attempts[1].note


def test_secrets_are_not_shown_and_come_back() -> None:
    document = payload(data=[{"api_key": "hunter2", "note": f"use {KEY} for it"}, {"plain": 1}])
    model = Model(lambda shown: shown | {"data": {"rows": shown["data"]}})
    found = repaired(document, model)
    assert KEY not in model.asked[0].content
    assert "hunter2" not in model.asked[0].content
    # moved as a whole: where it stands now, nobody can say which secret it was
    assert "masked secret, which cannot be restored" in found.attempts[1].note

    document = payload(confidence="very", data={"api_key": "hunter2", "note": f"use {KEY} for it", "n": 1})
    found = repaired(document, Model(lambda shown: shown | {"confidence": 0.9}))
    assert found.repaired is not None
    assert found.repaired.document == document | {"confidence": 0.9}


@pytest.mark.parametrize(("name", "secret"), [("api_key", "hunter2"), ("pin", 271828), ("password", 2718.28)])
def test_a_finding_does_not_tell_the_secret_it_is_about(name: str, secret: Any) -> None:
    document = payload(data=["text"])
    issue = make(
        FAMILIES["business_rule"],
        "no_plain_keys",
        location=("tokens", name),
        message=f"It is {secret}.",
        hint=f"Not {secret}.",
    )
    document["tokens"] = {name: secret}
    model = Model(lambda shown: shown | {"data": {"text": "text"}})
    verdict = msgspec.structs.replace(judge(document), issues=(*judge(document).issues, issue))
    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: "unused")
    found = repair(document, verdict, "payload", judge=judge, means=means, tries=tries_with(model))
    assert found.repaired is not None
    assert "business_rule.no_plain_keys" in model.asked[0].content
    assert str(secret) not in model.asked[0].content


@pytest.mark.parametrize("secret", ["hunter2", 271828])
def test_a_finding_does_not_tell_the_secret_that_a_rule_compares_with(secret: Any) -> None:
    kind, operator = BusinessRuleType.CROSS_CHECK, Operator.EQ
    rule = BusinessRule(rule_id="r", name="r", rule_type=kind, field="n", operator=operator, compare_field="a.pin")
    demands = Requirements(rules=(BusinessRuleSet(set_id="s", name="S", rules=[rule]),))
    model = Model(lambda shown: shown)
    repaired(payload(data={"n": 1, "a": {"pin": secret}}), model, demands=demands)
    assert "business_rule.cross_check.r" in model.asked[0].content
    assert str(secret) not in model.asked[0].content


def test_a_prompt_of_ones_own_is_asked_by() -> None:
    model = Model(summarised)
    repaired(without_summary(), model, prompt=Prompt("repair-ours-3", "Mend it as we do."))
    assert model.asked[0].prompt == "repair-ours-3"
    assert model.asked[0].instructions.startswith("Mend it as we do.")


SHOWN = {"keys": [MASKED, MASKED, "c"], "text": f"a {MASKED} b", "token": MASKED, "n": 1}
BEFORE = {"keys": ["one", "two", "c"], "text": "a three b", "token": "four", "n": 1}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (SHOWN, BEFORE),
        ({**SHOWN, "n": 2}, {**BEFORE, "n": 2}),
        ({"token": MASKED, "text": "new"}, {"token": "four", "text": "new"}),
        ({"keys": [MASKED, MASKED, "d"]}, {"keys": ["one", "two", "d"]}),
        ({"keys": ["c"]}, {"keys": ["c"]}),
    ],
)
def test_secrets_stand_where_they_stood(answer: Any, expected: Any) -> None:
    assert restore_secrets(answer, SHOWN, BEFORE) == expected


@pytest.mark.parametrize(
    "answer",
    [
        {"other": MASKED},
        {"text": f"b {MASKED} a"},
        {"keys": [MASKED, "c"]},
        {"deep": {"deeper": [1, {"x": f"{MASKED}!"}]}},
        {MASKED: "a secret was the name of a field"},
    ],
)
def test_a_secret_that_moved_is_not_guessed(answer: Any) -> None:
    with pytest.raises(LostSecretError):
        restore_secrets(answer, SHOWN, BEFORE)


ACCOUNTS = [{"name": "a", "api_key": "one", "n": 1}, {"name": "b", "api_key": "two", "n": 1}]
A, B = ({**account, "api_key": MASKED} for account in ACCOUNTS)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([B, A], [ACCOUNTS[1], ACCOUNTS[0]]),
        ([B], [ACCOUNTS[1]]),
        ([{**A, "n": 2}, B], [{**ACCOUNTS[0], "n": 2}, ACCOUNTS[1]]),
        ([{**A, "n": 1.0}, {**B, "n": 1.0}], ACCOUNTS),
        ([A, {"name": "b", "n": 2}], [ACCOUNTS[0], {"name": "b", "n": 2}]),
        ([{"name": "b", "n": 2}, {"name": "a", "n": 2}], [{"name": "b", "n": 2}, {"name": "a", "n": 2}]),
    ],
)
def test_a_secret_follows_its_entry(answer: Any, expected: Any) -> None:
    assert restore_secrets(answer, [A, B], ACCOUNTS) == expected


@pytest.mark.parametrize("answer", [[{**B, "n": 2}, {**A, "n": 2}], [B, {**A, "n": 2}], [{**B, "n": 2}]])
def test_no_entry_gets_the_secret_of_another(answer: Any) -> None:
    with pytest.raises(LostSecretError):
        restore_secrets(answer, [A, B], ACCOUNTS)


def test_the_secrets_of_a_list_are_not_guessed_once_an_entry_moved() -> None:
    with pytest.raises(LostSecretError):
        restore_secrets(["b", MASKED, "a", MASKED], ["a", MASKED, "b", MASKED], ["a", "one", "b", "two"])


def test_findings_of_the_model_layers_can_be_mended() -> None:
    document = payload()
    place = ("data", "text")
    doubt = make(CATALOGUE["semantic.unsupported_claim"], location=place, message="Not in the context.", model=MODEL)
    means = Means(budget_of(TypePolicy("*"), default_counter()), NOW, lambda: "unused")

    def verdict_on(candidate: Document) -> Verdict:
        found = judge(candidate)
        return (
            found
            if "median" not in candidate["data"]["text"]
            else msgspec.structs.replace(found, issues=(doubt,), outcome="rejected")
        )

    model = Model(lambda shown: shown | {"data": {"text": "Three of five suppliers answered."}})
    found = repair(document, verdict_on(document), "payload", judge=verdict_on, means=means, tries=tries_with(model))
    assert found.repaired is not None
    assert found.repaired.document["data"]["text"] == "Three of five suppliers answered."
    assert "semantic.unsupported_claim" in model.asked[0].content
