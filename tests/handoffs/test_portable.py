"""Tests that stored handoffs are exported as submissions that can be imported again."""

import json

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.evaluation import items
from handoffaudit.handoffs import export, judge, queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import ActorKind
from handoffaudit.handoffs.review import decisions
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.support import NOT_JSON, circular, held, judged, payload, submit


def lines(tenant, filters=None, **how):
    return [line.text for line in export.lines(tenant, filters or Filters(), **how)]


def test_each_handoff_is_one_line_that_says_all_that_was_sent(tenant):
    envelope = {"trace_id": "run-7", "step": 3, "context": {"question": "a\nb"}, "evidence": [{"chunk_id": "c1"}]}
    judged(tenant, json.dumps(payload(handoff_id="one"), indent=2).encode(), **envelope)
    (line,) = lines(tenant)
    assert b"\n" not in line
    read = json.loads(line)
    assert read["document"] == payload(handoff_id="one")
    assert {name: read[name] for name in envelope} == envelope
    assert read["handoff_id"] == "one"
    assert read["format"] == queries.get(tenant, "one").format


def test_brought_in_elsewhere_it_is_judged_the_same(tenant):
    for document in (payload(handoff_id="fine"), circular(handoff_id="round"), held(handoff_id="long")):
        # One that names its tenant is refused by every other.
        del document["tenant_id"]
        judged(tenant, document, trace_id="run-8")
    elsewhere = Tenant.objects.create(slug="elsewhere", name="Elsewhere")
    for line in lines(tenant):
        submit(elsewhere, line)
    judge.drain()
    for name in ("fine", "round", "long"):
        here, there = queries.get(tenant, name), queries.get(elsewhere, name)
        assert (here.state, here.codes, here.trace_id) == (there.state, there.codes, there.trace_id)
    assert lines(elsewhere) == lines(tenant)


def test_only_what_matches_and_only_of_the_tenant(tenant):
    judged(tenant, payload(handoff_id="fine"))
    judged(tenant, circular(handoff_id="round"))
    other = Tenant.objects.create(slug="other", name="Other")
    judged(other, circular(handoff_id="theirs", tenant_id="other"))
    found = lines(tenant, Filters(state=("rejected",)))
    assert [orjson.loads(line)["handoff_id"] for line in found] == ["round"]


def test_what_is_no_json_is_told_and_not_written(tenant):
    submit(tenant, NOT_JSON)
    assert lines(tenant) == [None]


def test_reviews_are_what_people_decided_as_eval_reads_it(tenant):
    rui = Actor(ActorKind.PERSON, "rui")
    for name, decision in (("long", Decision.APPROVE), ("longer", Decision.DECLINE)):
        judged(tenant, held(handoff_id=name))
        decisions.decide_handoff(
            tenant=tenant, reference=name, decision=decision, note="", actor=rui, seen_version=None
        )
    judged(tenant, circular(handoff_id="waits"))
    found = [orjson.loads(line) for line in lines(tenant, reviews=True)]
    assert [(one["handoff_id"], one["review"]["decision"]) for one in found] == [
        ("long", "approved"),
        ("longer", "declined"),
    ]
    assert all("chain.needs_approval" in one["review"]["codes"] for one in found)
    assert all(items.is_review(one) and len(list(items.review_items(one, None))) == 1 for one in found)
