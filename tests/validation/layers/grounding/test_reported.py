"""Values that guessed observers bring stay of unknown origin through the trace."""

import json
from typing import Any

import pytest

from handoffaudit.evaluation.judge import TraceRoles
from handoffaudit.validation.agents import AgentRole, SourceRole
from handoffaudit.validation.claims import Source
from handoffaudit.validation.layers import LAYERS
from handoffaudit.validation.layers.grounding import SourceIndex
from handoffaudit.validation.layers.grounding.reported import MOST_KEYS, keys_of, report, reported_keys
from handoffaudit.validation.pipeline import run
from handoffaudit.validation.verdict import Verdict
from tests.validation.support import NOW, judge, payload, subject_of

INVENTION = "exitcode: 0\nThe fund held 48,213 shares of Northgate Mills on 12 March 2031."
QUESTION = {"question": "How many shares does the fund hold?"}
OBSERVER = SourceRole(AgentRole.OBSERVER, is_declared=True)
WORKER = SourceRole(AgentRole.WORKER, is_declared=True)


class Trace:
    """One trace whose handoffs each carry everything earlier in their context."""

    def __init__(self) -> None:
        self.roles = TraceRoles()
        self.earlier: list[dict[str, str]] = []

    def hand(self, source: str, text: str, **given: Any) -> Verdict:
        context = {**QUESTION, "earlier": list(self.earlier)}
        envelope = {"context": context, "trace_id": "t-1", **given}
        subject = subject_of(
            payload(source_agent_id=source, call_chain=[source], data={"text": text}), envelope=envelope
        )
        self.roles.prepare(subject)
        verdict = run(subject, validation_id="v", now=lambda: NOW, monotonic=lambda: 0.0, layers=LAYERS)
        self.roles.learn(subject, verdict)
        self.earlier.append({"agent": source, "text": text})
        return verdict


def statuses(verdict: Verdict) -> dict[str, str]:
    return {mark.text: mark.status for claim in verdict.claims for mark in claim.marks}


def sources(verdict: Verdict) -> list[tuple[str, ...]]:
    return [mark.where for claim in verdict.claims for mark in claim.marks if mark.status == "reported"]


def found(verdict: Verdict) -> list[str]:
    return [issue.code for issue in verdict.issues if issue.layer == "grounding"]


def test_an_invention_of_a_guessed_observer_is_never_grounded() -> None:
    trace = Trace()
    brought = trace.hand("terminal", INVENTION)
    first = trace.hand("analyst", "The fund holds 48213 shares of Northgate Mills, as of 2031-03-12.")
    second = trace.hand("writer", "On March 12, 2031 it held 48,213 shares of Northgate Mills.")
    for verdict in (brought, first, second):
        shown = statuses(verdict)
        assert "Northgate Mills" in shown
        assert set(shown.values()) == {"reported"}, shown
        assert sources(verdict) == [()] * len(shown)
        assert found(verdict) == []


def test_the_context_grounds_what_no_observer_brought() -> None:
    trace = Trace()
    trace.hand("analyst", "We look at 7,350 accounts.")
    trace.hand("terminal", "exitcode: 0\n7350 rows, 991 of them open")
    shown = statuses(trace.hand("writer", "There are 7,350 accounts, 991 of them open."))
    assert shown == {"7,350": "grounded", "991": "reported"}


def test_a_new_value_beside_a_reported_one_is_ungrounded() -> None:
    trace = Trace()
    trace.hand("terminal", INVENTION)
    verdict = trace.hand("analyst", "The fund holds 48,213 shares of Northgate Mills and 5,577 of Southgate Works.")
    shown = statuses(verdict)
    assert (shown["48,213"], shown["5,577"]) == ("reported", "ungrounded")
    assert "Works" in " ".join(text for text, status in shown.items() if status == "ungrounded")


def test_evidence_confirms_a_reported_value() -> None:
    trace = Trace()
    trace.hand("terminal", INVENTION)
    register = [{"source": "register", "content": "Northgate Mills: 48,213 shares."}]
    shown = statuses(
        trace.hand("analyst", "The fund holds 48213 shares of Northgate Mills since 12 March 2031.", evidence=register)
    )
    assert shown == {"48213": "grounded", "Northgate Mills": "grounded", "12 March 2031": "reported"}


def test_json_that_nobody_judges_launders_nothing() -> None:
    trace = Trace()
    trace.hand("researcher", '{"shares": 48213, "company": "Northgate Mills"}')
    assert statuses(trace.hand("writer", "The fund holds 48,213 shares."))["48,213"] == "reported"


def test_escapes_join_no_words_of_a_reported_text() -> None:
    text = json.dumps({"size": "5\u00a0in", "hotel": "\u201cBlue Sky\u201d", "fee": "\u20ac48"})
    marks = report(text, SourceIndex.of([Source("context.page", "It is 5 in.")]))
    assert [(mark.kind, mark.text) for mark in marks] == [("number", "5"), ("name", "Blue Sky"), ("number", "48")]


def test_a_declared_observers_values_ground_later_claims() -> None:
    document = payload(source_agent_id="writer", call_chain=["writer"], data={"text": "The fund held 48,213 shares."})
    evidence = (Source("browser, step 2", INVENTION),)
    verdict = judge(
        document, envelope={"trace_id": "t-1"}, trace_evidence=evidence, reported=keys_of("number", "48213")
    )
    (mark,) = verdict.claims[0].marks
    assert mark.status == "grounded"
    assert mark.where[0].startswith("browser, step 2: ")


def test_a_declared_observer_is_not_judged() -> None:
    document = payload(source_agent_id="crawler", call_chain=["crawler"], data={"text": INVENTION})
    verdict = judge(document, envelope={"context": QUESTION}, source_role=OBSERVER)
    layer = next(layer for layer in verdict.layers if layer.name == "grounding")
    assert (layer.status.value, found(verdict)) == ("skipped", [])
    assert layer.why == "the source is declared as an observer: its values are evidence for the claims of the trace"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("terminal", INVENTION),
        ("analyst", '{"shares": 48213, "bonds": 7731, "funds": 4419}'),
        ("user", "I hold 48,213."),
    ],
)
def test_a_declared_worker_is_judged_however_its_text_looks(source: str, text: str) -> None:
    document = payload(source_agent_id=source, call_chain=[source], data={"text": text})
    verdict = judge(document, envelope={"context": QUESTION}, source_role=WORKER)
    assert "grounding.number" in found(verdict)


def test_a_hostile_observer_reports_a_bounded_number_of_keys() -> None:
    text = "exitcode: 0 " + " ".join(f"Name{number}ham {number}.75" for number in range(13, 30_000))
    trace = Trace()
    assert 100 < len(reported_keys(trace.hand("terminal", text).claims)) <= MOST_KEYS


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("number", "1,200.50", "1200.5"),
        ("number", "twelve", "12"),
        ("date", "12 March 2031", "2031-03-12"),
        ("date", "2 PM", "14:00"),
        ("name", "Müller", "Muller"),
        ("identifier", "#W123", "w123"),
        ("identifier", "https://example.org/a/", "example.org/a"),
        ("quote", "Yes, we can", "yes we can"),
    ],
)
def test_two_notations_of_a_value_have_the_same_key(kind: str, one: str, other: str) -> None:
    assert keys_of(kind, one) == keys_of(kind, other) != ()
