"""Tests of dry runs of prompts on past handoffs with the real SDK: costs, findings and outages."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import dry_run_prompts, dry_runs, notify, tasks
from handoffaudit.handoffs.models import Handoff, HandoffBody, ModelAnswer, ModelBreaker, ModelCall, Trial
from handoffaudit.policy.kinds import prompts, strictness
from handoffaudit.policy.models import Kind
from handoffaudit.validation.config import Strictness, TypePolicy
from handoffaudit.validation.prompts.question import Use, default_prompt
from tests.handoffs.support import NOT_JSON, checked, doubts, payload, submit
from tests.handoffs.support import judged as judged_only
from tests.messages_api.requests import Request
from tests.messages_api.scripted import Scripted, fails
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)

SHARP = "Doubt every number."
TYPE = "research_result"


def draft(**changed: Any) -> dict[str, object]:
    return {"rows": [{"use": "grounding", "handoff_type": TYPE, "workflow": None, "text": SHARP} | changed]}


def planned(tenant: Tenant, content: dict[str, object] | None = None, **scope: Any) -> Trial:
    return dry_runs.plan(
        tenant=tenant, kind=Kind.PROMPTS, content=content or draft(), base_version=0, actor="ada", **scope
    )


def tried(tenant: Tenant, content: dict[str, object] | None = None, **scope: Any) -> Trial:
    trial = dry_runs.begin(planned(tenant, content, **scope))
    assert dry_runs.run_waiting() == 0
    dry_runs.run_waiting(with_model=True)
    return dry_runs.get(tenant, trial.pk)


def sharply(request: Request) -> Scripted | None:
    """Report a fabricated quote in the first of three handoffs where the prompt says to doubt."""
    return doubts() if SHARP in request.system and "Supplier 1" in request.content else None


def three(tenant: Tenant) -> list[Handoff]:
    return [
        checked(tenant, payload(handoff_id=f"h-{number}", data={"summary": f"Supplier {number} delivers."}))
        for number in range(3)
    ]


def test_both_prompts_are_asked_and_flips_are_counted(tenant: Tenant, model: MessagesServer) -> None:
    handoffs = three(tenant)
    asked_before = len(model.requests)
    assert asked_before == 3
    model.respond = sharply
    trial = tried(tenant)
    assert (trial.judged, trial.total, trial.unasked, trial.error) == (3, 3, 0, "")
    assert trial.flips == {"accepted>rejected": 1}
    assert [row["handoff"] for row in trial.changed] == [str(handoffs[1].pk)]
    assert trial.changed[0]["codes"] == ["semantic.fabricated"]
    # What is in force was asked when they were judged, and its answers are kept.
    assert len(model.requests) == asked_before + 3
    assert set(ModelCall.objects.filter(cached=False).values_list("prompt", flat=True)) == {
        default_prompt(Use.GROUNDING).name,
        f"grounding prompts-draft type:{TYPE}",
    }
    assert all(handoff.state == "accepted" for handoff in Handoff.objects.all())
    again = tried(tenant)
    assert (again.flips, len(model.requests)) == (trial.flips, asked_before + 3)


def test_both_verdicts_of_one_are_told_by_the_answers_of_the_trial(tenant: Tenant, model: MessagesServer) -> None:
    handoffs = three(tenant)
    model.respond = sharply
    trial = tried(tenant)
    asked = len(model.requests)
    now, then = dry_runs.judge_again(trial, handoffs[1])
    assert (now.outcome, then.outcome) == ("accepted", "rejected")
    assert "semantic.fabricated" in {issue.code for issue in then.issues} - {issue.code for issue in now.issues}
    now, then = dry_runs.judge_again(trial, handoffs[0])
    assert (now.outcome, then.outcome) == ("accepted", "accepted")
    assert len(model.requests) == asked
    ModelAnswer.objects.all().delete()
    with pytest.raises(dry_run_prompts.AnswerNotStored):
        dry_runs.judge_again(trial, handoffs[1])
    assert len(model.requests) == asked


def test_only_what_the_draft_is_for_is_asked_about(tenant: Tenant, model: MessagesServer) -> None:
    three(tenant)
    submit(tenant, NOT_JSON)
    other = checked(tenant, payload(handoff_type="deal_data"), context={"workflow_id": "desk-7"})
    asked_before = len(model.requests)
    trial = tried(tenant, draft(handoff_type=None, workflow="desk-*"))
    assert (trial.judged, trial.flips, len(model.requests)) == (5, {}, asked_before + 1)
    assert ModelCall.objects.get(prompt="grounding prompts-draft workflow:desk-*").handoff == other.pk


def test_a_draft_that_takes_a_prompt_out_is_tried_against_the_shipped_one(
    tenant: Tenant, model: MessagesServer
) -> None:
    prompts.save(tenant=tenant, base_version=0, rows=prompts.from_plain(draft()), actor="ada")
    model.respond = sharply
    assert [handoff.state for handoff in three(tenant)] == ["accepted", "rejected", "accepted"]
    trial = tried(tenant, {"rows": []})
    assert trial.flips == {"rejected>accepted": 1}


def test_what_it_costs_is_told_before_without_asking(tenant: Tenant, model: MessagesServer, settings) -> None:
    three(tenant)
    checked(tenant, payload(handoff_type="deal_data"))
    asked_before = len(model.requests)
    cost = dry_runs.estimate_cost(planned(tenant))
    assert (cost.handoffs, cost.looked_at, cost.touched, cost.questions) == (4, 4, 3, 3)
    assert 0 < cost.usd < cost.left < settings.MODEL_DAILY_USD
    assert not cost.is_too_dear
    trial = tried(tenant)
    assert trial.unasked == 0
    spent = sum(ModelCall.objects.filter(prompt__contains="draft").values_list("cost_usd", flat=True))
    assert 0 < spent <= cost.usd
    assert len(model.requests) == asked_before + cost.questions
    assert dry_runs.estimate_cost(planned(tenant)).questions == 0
    settings.MODEL_DAILY_USD = 0.0001
    assert dry_runs.estimate_cost(planned(tenant, draft(text="Another."))).is_too_dear


def test_the_cost_of_many_is_told_from_the_newest(
    tenant: Tenant, model: MessagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(tenant)
    whole = dry_runs.estimate_cost(planned(tenant))
    monkeypatch.setattr(dry_run_prompts, "SAMPLE", 2)
    part = dry_runs.estimate_cost(planned(tenant))
    assert (part.looked_at, part.touched, part.questions) == (2, 3, 3)
    assert part.usd == pytest.approx(whole.usd, rel=0.05)
    # Handoffs whose documents were removed cost nothing, also in the estimate for the others.
    HandoffBody.objects.filter(handoff__handoff_id="h-2").delete()
    removed = dry_runs.estimate_cost(planned(tenant))
    assert (removed.looked_at, removed.touched) == (2, 2)
    assert removed.usd < part.usd


def test_the_cost_is_told_in_a_bounded_time(
    tenant: Tenant, model: MessagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(tenant)
    monkeypatch.setattr(dry_run_prompts, "MOST_SECONDS", 0.0)
    cost = dry_runs.estimate_cost(planned(tenant))
    assert (cost.looked_at, cost.touched, cost.questions) == (1, 3, 3)


def test_at_most_so_many_are_tried(tenant: Tenant, model: MessagesServer) -> None:
    three(tenant)
    assert planned(tenant, most=10_000).most == dry_run_prompts.MOST
    assert tried(tenant, most=2).judged == 2


@pytest.mark.parametrize("status", [500, 413, 422])
def test_one_that_could_not_be_asked_about_is_no_flip(tenant: Tenant, model: MessagesServer, status: int) -> None:
    three(tenant)
    model.respond = lambda request: fails(status) if "Supplier 1" in request.content else sharply(request)
    trial = tried(tenant)
    assert (trial.judged, trial.unasked, trial.flips, trial.error) == (3, 1, {}, "")


@pytest.mark.parametrize(("status", "word"), [(401, "key"), (400, "")])
def test_what_no_handoff_can_be_asked_for_ends_it(
    tenant: Tenant, model: MessagesServer, status: int, word: str
) -> None:
    three(tenant)
    model.outage = status
    trial = tried(tenant)
    assert trial.finished_at is not None
    assert trial.error.startswith("The LLM is unavailable: ")
    assert word in trial.error
    assert (trial.unasked, trial.flips) == (3, {})


def test_an_outage_opens_the_breaker_and_ends_it(tenant: Tenant, model: MessagesServer, settings) -> None:
    settings.MODEL_BREAKER_FAILURES = 2
    for number in range(12):
        checked(tenant, payload(handoff_id=f"h-{number}", data={"summary": f"Supplier {number} delivers."}))
    model.outage = 529
    trial = tried(tenant)
    assert trial.error.startswith("The LLM is unavailable: ")
    assert (trial.flips, trial.judged < 12, trial.unasked) == ({}, True, trial.judged)
    assert ModelBreaker.objects.get().failures >= 2


def test_a_spent_budget_ends_it(tenant: Tenant, model: MessagesServer, settings) -> None:
    three(tenant)
    settings.MODEL_DAILY_USD = 0.0001
    trial = tried(tenant)
    assert "daily budget" in trial.error
    assert trial.flips == {}


def test_without_a_key_it_ends_at_once(tenant: Tenant, model: MessagesServer, settings) -> None:
    three(tenant)
    settings.ANTHROPIC_API_KEY = ""
    trial = tried(tenant, draft(text="Another."))
    assert "No LLM key is configured" in trial.error
    assert trial.unasked == 3


def test_the_sweep_ends_it_if_the_key_was_removed(
    tenant: Tenant, model: MessagesServer, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(tenant)
    trial = dry_runs.begin(planned(tenant))
    settings.ANTHROPIC_API_KEY = ""
    sent: list[str] = []
    monkeypatch.setattr(notify, "send", lambda task=notify.TASK: sent.append(task) or True)
    tasks.sweep()
    trial.refresh_from_db()
    assert trial.finished_at is not None
    assert "No LLM key is configured" in trial.error
    assert notify.PROMPT_TRIALS not in sent


def test_one_whose_worker_ended_is_found_by_the_sweep_and_goes_on(
    tenant: Tenant, model: MessagesServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(tenant)
    model.respond = sharply
    monkeypatch.setattr(dry_run_prompts, "AT_ONCE", 1)
    trial = dry_runs.begin(planned(tenant))
    newest = Handoff.objects.order_by("-id")[0]
    expired = timezone.now() - timedelta(seconds=1)
    Trial.objects.update(judged=1, reached=newest.pk, claim=uuid.uuid4(), claim_expires_at=expired, tries=1, unasked=1)
    woken: list[str] = []
    monkeypatch.setattr(notify, "send", lambda task=notify.TASK: woken.append(task) or True)
    tasks.sweep()
    assert notify.PROMPT_TRIALS in woken
    assert notify.TRIALS not in woken
    assert dry_runs.run_waiting(with_model=True) == 1
    trial.refresh_from_db()
    assert (trial.judged, trial.unasked, trial.flips) == (3, 1, {"accepted>rejected": 1})


def test_lenient_types_are_not_asked_about(tenant: Tenant, model: MessagesServer) -> None:
    row = TypePolicy(TYPE, strictness=Strictness.LENIENT)
    strictness.upsert_row(tenant=tenant, base_version=0, row=row, actor="ada")
    judged_only(tenant, payload())
    cost = dry_runs.estimate_cost(planned(tenant))
    assert (cost.handoffs, cost.touched, cost.questions, cost.usd) == (1, 1, 0, 0)
    assert tried(tenant).flips == {}
    assert model.requests == []
