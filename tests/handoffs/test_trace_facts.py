"""Roles of sources and facts of traces in the judging of stored handoffs."""

from typing import Any

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, trace_facts
from handoffaudit.handoffs.models import AgentBehaviour, Handoff, TraceFact, Verdict
from handoffaudit.handoffs.models.integrations import FactKind
from handoffaudit.handoffs.verdicts import record_of
from handoffaudit.policy import kinds
from handoffaudit.validation.agents import AgentRole, SourceRole
from handoffaudit.validation.layers.grounding.reported import keys_of
from tests.handoffs.support import judged, payload, submit

pytestmark = pytest.mark.django_db

RUN = "exitcode: 0\nThe fund held 48,213 shares."
PAGE = "Address: https://example.org/a\nShowing page 1 of 3.\nThe fund held 48,213 shares."
QUESTION = {"question": "How many?"}


def handed(tenant: Tenant, source: str, text: str, trace: str = "t-1", **given: Any) -> Handoff:
    document = payload(source_agent_id=source, call_chain=[source], data={"text": text}, tenant_id=tenant.slug)
    return judged(tenant, document, **{"context": QUESTION, **given}, trace_id=trace)


def marks(handoff: Handoff) -> dict[str, str]:
    values = [value for claim in content(handoff)["claims"] for value in claim["values"]]
    return {value["text"]: value["status"] for value in values if value["kind"] != "wording"}


def content(handoff: Handoff) -> Any:
    return orjson.loads(Verdict.objects.get(pk=handoff.verdict).content)


def codes(handoff: Handoff) -> list[str]:
    return [issue["code"] for issue in content(handoff)["issues"]]


def declare(tenant: Tenant, agent: str, role: AgentRole) -> None:
    version = kinds.roles.current(tenant).version
    row = kinds.roles.parse([{"agent": agent, "role": role.value}])[0]
    kinds.roles.upsert_row(tenant=tenant, base_version=version, row=row, actor="ada")


def test_an_invention_stays_reported_over_three_handoffs(tenant: Tenant) -> None:
    first = handed(tenant, "terminal", RUN)
    second = handed(tenant, "analyst", "It held 48,213 shares.", context={"earlier": RUN})
    third = handed(tenant, "writer", "It held 48213 shares.", context={"earlier": RUN, "answer": "48,213"})
    assert [marks(one) for one in (first, second, third)] == [
        {"48,213": "reported"},
        {"48,213": "reported"},
        {"48213": "reported"},
    ]
    assert not any(code == "grounding.number" for one in (first, second, third) for code in codes(one))


def test_another_trace_or_tenant_knows_nothing_of_it(tenant: Tenant, other_tenant: Tenant) -> None:
    handed(tenant, "terminal", RUN)
    for where, trace in ((tenant, "t-2"), (other_tenant, "t-1")):
        assert marks(handed(where, "analyst", "It held 48,213 shares.", trace)) == {"48,213": "ungrounded"}


def test_a_declared_observers_values_ground_later_claims(tenant: Tenant) -> None:
    declare(tenant, "crawler", AgentRole.OBSERVER)
    handed(tenant, "crawler", RUN)
    later = handed(tenant, "analyst", "It held 48,213 shares.")
    assert marks(later) == {"48,213": "grounded"}
    (value,) = content(later)["claims"][0]["values"]
    assert value["where"][0].startswith("trace[crawler]: ")
    assert TraceFact.objects.get().kind == FactKind.EVIDENCE


def test_the_declaration_of_another_tenant_has_no_effect(tenant: Tenant, other_tenant: Tenant) -> None:
    declare(other_tenant, "crawler", AgentRole.OBSERVER)
    handed(tenant, "crawler", RUN)
    assert TraceFact.objects.get().kind == FactKind.REPORTED
    assert marks(handed(tenant, "analyst", "It held 48,213 shares.")) == {"48,213": "reported"}


def test_a_declared_worker_that_writes_like_a_tool_is_judged(tenant: Tenant) -> None:
    declare(tenant, "terminal", AgentRole.WORKER)
    assert "grounding.number" in codes(handed(tenant, "terminal", RUN))


def test_the_earlier_handoffs_of_an_agent_in_its_tenant_make_it_a_worker(tenant: Tenant, other_tenant: Tenant) -> None:
    for trace in ("a", "b"):
        handed(tenant, "surfer", "The fund held shares.", trace)
    assert "grounding.number" in codes(handed(tenant, "surfer", PAGE, "c"))
    assert marks(handed(other_tenant, "surfer", PAGE, "c"))["48,213"] == "reported"
    assert AgentBehaviour.objects.get(tenant=tenant, agent="surfer").forms == "001"


def test_a_later_handoff_changes_nothing_for_an_earlier_one(tenant: Tenant) -> None:
    early = handed(tenant, "analyst", "It held 48,213 shares.")
    handed(tenant, "terminal", RUN)
    facts = trace_facts.load_facts([early])
    assert marks(early) == {"48,213": "ungrounded"}
    assert facts.find_known(early, _record(early), {}).reported == frozenset()


def _record(handoff: Handoff) -> Any:
    return record_of(handoff, handoff.body)


def test_handoffs_of_one_batch_learn_from_one_another(tenant: Tenant) -> None:
    for source, text, context in (
        ("terminal", RUN, QUESTION),
        ("analyst", "It held 48,213 shares.", {"earlier": RUN}),
    ):
        document = payload(source_agent_id=source, call_chain=[source], data={"text": text})
        submit(tenant, document, context=context, trace_id="t-1")
    assert judge.drain() == 2
    first, second = Handoff.objects.order_by("id")
    assert marks(first) == marks(second) == {"48,213": "reported"}


def test_a_batch_costs_one_query(tenant: Tenant) -> None:
    rows = [handed(tenant, "terminal", RUN, f"t-{number}") for number in range(3)]
    later = Handoff(tenant=tenant, trace_id="t-1")
    with CaptureQueriesContext(connection) as queries:
        facts = trace_facts.load_facts([*rows, later])
    assert len(queries) == 1
    assert facts.find_known(later, _record(rows[0]), {}).reported == frozenset(keys_of("number", "48213"))


def test_the_facts_of_a_trace_are_bounded(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_facts, "MOST_FACTS", 2)
    for number in range(13, 16):
        handed(tenant, "terminal", f"exitcode: 0, {number}.5 rows")
    last = handed(tenant, "writer", "13.5 and 14.5 and 15.5 rows")
    assert marks(last) == {"13.5": "ungrounded", "14.5": "reported", "15.5": "reported"}


def test_the_facts_of_a_handoff_do_not_depend_on_its_batch(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_facts, "MOST_FACTS", 2)
    rows = {
        trace: [handed(tenant, "terminal", f"exitcode: 0, {trace}{number}.5 rows", trace) for number in range(13, 17)]
        for trace in "123"
    }
    record = _record(rows["1"][0])

    def reported(batch: list[Handoff], handoff: Handoff) -> frozenset[str]:
        return trace_facts.load_facts(batch).find_known(handoff, record, {}).reported

    everything = [one for of_trace in rows.values() for one in of_trace]
    for trace, (first, second, third, last) in rows.items():
        assert reported([first], first) == frozenset()
        assert reported([last], last) == {f"n:{trace}{number}.5" for number in (14, 15)}
        for batch in (everything, [first, last], [second, third, last], everything[::-1]):
            for one in {first, second, third, last}.intersection(batch):
                assert reported(batch, one) == reported([one], one)
                snapshot = trace_facts.load_facts(batch).snapshot(one)
                assert snapshot == trace_facts.load_facts([one]).snapshot(one)


def test_facts_that_are_too_many_for_the_memory_are_read_for_one_handoff_at_a_time(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        handed(tenant, "terminal", f"exitcode: 0, {number}.5 rows", trace)
        for trace in "123"
        for number in range(13, 17)
    ]
    record = _record(rows[0])
    new, later = (Handoff(tenant=tenant, trace_id="1") for _ in range(2))
    together = trace_facts.load_facts([*rows, new, later])
    monkeypatch.setattr(trace_facts, "MOST_LOADED", 5 * max(len(fact.content) for fact in TraceFact.objects.all()))
    alone = trace_facts.load_facts([*rows, new, later])
    assert not alone._facts
    for one in rows:
        snapshot = alone.snapshot(one)
        known = alone.find_known(one, record, {})
        assert alone.find_known(one, record, {}) is known
        assert (snapshot, known) == (together.snapshot(one), together.find_known(one, record, {}))
    observer = SourceRole(AgentRole.OBSERVER, is_declared=True)
    for facts in (alone, together):
        facts.learn(new, record, trace_facts.Known(observer), [])
    assert alone.find_known(later, record, {}) == together.find_known(later, record, {})
    assert alone.find_known(later, record, {}).evidence


def test_the_text_of_the_facts_of_a_trace_is_bounded(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tenant, "crawler", AgentRole.OBSERVER)
    rows = [handed(tenant, "crawler", f"{number} shares") for number in range(20, 24)]
    monkeypatch.setattr(trace_facts, "MOST_TEXT", 2 * len(TraceFact.objects.all()[0].content))
    last = handed(tenant, "crawler", "24 shares")
    for batch in ([last], [*rows, last], [rows[0], last]):
        facts = trace_facts.load_facts(batch)
        assert [one.text for one in facts.find_known(last, _record(last), {}).evidence] == ["23 shares", "22 shares"]


def test_many_traces_are_read(tenant: Tenant) -> None:
    rows = [handed(tenant, "terminal", RUN, f"t-{number}") for number in range(3)]
    unknown = [Handoff(tenant=tenant, trace_id=f"u-{number}") for number in range(trace_facts._TRACES_AT_ONCE)]
    later = [Handoff(tenant=tenant, trace_id=f"t-{number}") for number in range(3)]
    facts = trace_facts.load_facts([*later, *unknown, *rows])
    assert all(facts.find_known(one, _record(rows[0]), {}).reported for one in later)


def test_a_huge_hostile_output_is_stored_in_part(tenant: Tenant) -> None:
    declare(tenant, "crawler", AgentRole.OBSERVER)
    handed(tenant, "crawler", "exitcode: 0 \x00" + "4711 € " * 50_000)
    assert len(TraceFact.objects.get().content) <= trace_facts.LONGEST_EVIDENCE
    assert judge.drain() == 0
