"""Tests of dry runs on handoffs that were judged before."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import dry_runs
from handoffaudit.handoffs.models import Handoff, State, Trial
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.models import Kind
from handoffaudit.policy.strictness import to_plain
from handoffaudit.policy.values import InvalidPolicy
from tests.handoffs.support import NOT_JSON, circular, held, judged, payload, submit

pytestmark = pytest.mark.django_db


def table(**changes: object) -> dict[str, object]:
    """Return the default strictness table with changes to `research_result`."""
    rows = [to_plain(row) for row in strictness.as_shipped.rows]
    return {"rows": [row | changes if row["handoff_type"] == "research_result" else row for row in rows]}


def tried(tenant: Tenant, content: dict[str, object], **scope: object) -> Trial:
    trial = dry_runs.start(tenant=tenant, kind=Kind.STRICTNESS, content=content, base_version=0, actor="ada", **scope)
    dry_runs.run_waiting()
    return dry_runs.get(tenant, trial.pk)


def test_a_trial_counts_what_would_change_each_way(tenant: Tenant) -> None:
    worse = judged(tenant, payload(handoff_id="fits"))
    better = judged(tenant, circular(handoff_id="loops"))
    trial = tried(tenant, table(token_budget=10))
    assert (trial.judged, trial.total, trial.flips) == (2, 2, {"accepted>rejected": 1})
    assert [row["handoff"] for row in trial.changed] == [str(worse.pk)]
    assert trial.changed[0]["codes"] == ["tokens.over_budget"]
    trial = tried(tenant, table(mode="shadow"))
    assert (trial.flips, trial.changed[0]["handoff"]) == ({"rejected>accepted": 1}, str(better.pk))
    assert trial.finished_at is not None
    assert Handoff.objects.get(handoff_id="fits").state == State.ACCEPTED


def test_the_gravest_codes_are_kept_and_all_that_decide_are_counted(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(tenant, payload(call_chain=["a", "researcher"]))
    monkeypatch.setattr(dry_runs, "MOST_CODES", 1)
    row = tried(tenant, table(token_budget=10, approval_length=1)).changed[0]
    assert (row["codes"], row["levels"], row["deciding"]) == (["tokens.over_budget"], ["error"], 2)


def test_only_the_last_ones_of_the_types_asked_for_are_tried(tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="other", handoff_type="deal_data"))
    for number in range(3):
        judged(tenant, payload(handoff_id=f"h-{number}"))
    trial = tried(tenant, table(token_budget=10), handoff_types=["research_result"], most=2)
    assert (trial.total, [row["handoff_id"] for row in trial.changed]) == (2, ["h-2", "h-1"])
    later = timezone.now() + timedelta(hours=1)
    assert tried(tenant, table(token_budget=10), since=later).total == 0


def test_the_row_for_any_other_type_is_tried_beside_a_type_with_a_row(tenant: Tenant) -> None:
    for handoff_type in ("research_result", "deal_data", "memo"):
        judged(tenant, payload(handoff_type=handoff_type))
    assert tried(tenant, table(), handoff_types=["*"]).total == 1
    assert tried(tenant, table(), handoff_types=["*", "deal_data"]).total == 2


def test_what_cannot_be_read_stays_rejected_and_what_waits_is_left_out(tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="ok"))
    submit(tenant, NOT_JSON)
    submit(tenant, payload(handoff_id="waits"))
    trial = tried(tenant, table(mode="shadow"))
    assert (trial.total, trial.judged, trial.flips) == (2, 2, {})


def test_a_trial_goes_on_where_its_worker_ended(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        judged(tenant, payload(handoff_id=f"h-{number}"))
    monkeypatch.setattr(dry_runs, "PART", 2)
    trial = dry_runs.start(
        tenant=tenant, kind=Kind.STRICTNESS, content=table(token_budget=10), base_version=0, actor="ada"
    )
    newest = Handoff.objects.order_by("-id")[1]
    expired = timezone.now() - timedelta(seconds=1)
    Trial.objects.filter(pk=trial.pk).update(
        judged=2, reached=newest.pk, flips={"accepted>rejected": 2}, claim=uuid.uuid4(), claim_expires_at=expired
    )
    assert dry_runs.run_waiting() == 1
    trial.refresh_from_db()
    assert (trial.judged, trial.flips) == (5, {"accepted>rejected": 5})


def test_one_that_always_fails_ends_with_an_error(tenant: Tenant) -> None:
    judged(tenant, payload())
    trial = dry_runs.start(tenant=tenant, kind=Kind.STRICTNESS, content=table(), base_version=0, actor="ada")
    Trial.objects.filter(pk=trial.pk).update(tries=dry_runs.TRIES)
    assert dry_runs.run_waiting() == 0
    trial.refresh_from_db()
    assert trial.finished_at is not None
    assert "dry run failed" in trial.error


def test_a_draft_that_could_not_be_saved_is_not_tried(tenant: Tenant) -> None:
    with pytest.raises(InvalidPolicy):
        dry_runs.start(tenant=tenant, kind=Kind.STRICTNESS, content=table(token_budget=0), base_version=0, actor="ada")


def test_other_tenants_are_left_out(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(other_tenant, payload(tenant_id=other_tenant.slug))
    trial = tried(tenant, table(token_budget=10))
    assert trial.total == 0
    with pytest.raises(Trial.DoesNotExist):
        dry_runs.get(other_tenant, trial.pk)


def test_newer_trials_take_the_place_of_the_oldest_that_wait(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(tenant, payload())
    judged(other_tenant, payload(tenant_id=other_tenant.slug))
    theirs = dry_runs.start(tenant=other_tenant, kind=Kind.STRICTNESS, content=table(), base_version=0, actor="bob")
    for _ in range(dry_runs.MOST_UNFINISHED + 2):
        dry_runs.start(tenant=tenant, kind=Kind.STRICTNESS, content=table(), base_version=0, actor="ada")
    dry_runs.run_waiting()
    found = list(Trial.objects.filter(tenant=tenant).order_by("id").values_list("judged", flat=True))
    assert found == [0, 0, *[1] * dry_runs.MOST_UNFINISHED]
    assert "newer dry runs" in Trial.objects.filter(tenant=tenant).earliest("id").error
    assert Trial.objects.get(pk=theirs.pk).judged == 1


def test_what_a_draft_would_do_in_shadow_is_counted(tenant: Tenant) -> None:
    judged(tenant, payload(handoff_id="fits"))
    strictness.save(tenant=tenant, base_version=0, rows=strictness.from_plain(table(mode="shadow")), actor="a")
    assert tried(tenant, table(mode="shadow", token_budget=10)).flips == {"accepted>rejected": 1}
    assert tried(tenant, table(mode="shadow")).flips == {}


def test_a_rare_flip_is_listed_beside_a_frequent_one(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_runs, "MOST_SHOWN", 2)
    monkeypatch.setattr(dry_runs, "MOST_OF_A_FLIP", 1)
    judged(tenant, held())
    for _ in range(3):
        judged(tenant, payload())
    trial = tried(tenant, table(token_budget=30, approval_length=9))
    assert sum(trial.flips.values()) == 4
    assert len({(row["before"], row["after"]) for row in trial.changed}) == 2


def test_a_stopped_trial_is_left_by_its_worker(tenant: Tenant) -> None:
    judged(tenant, payload())
    trial = dry_runs.start(tenant=tenant, kind=Kind.STRICTNESS, content=table(), base_version=0, actor="ada")
    assert dry_runs.cancel(tenant=tenant, pk=trial.pk, actor="bob")
    assert not dry_runs.cancel(tenant=tenant, pk=trial.pk, actor="bob")
    assert dry_runs.run_waiting() == 0
    stopped = dry_runs.get(tenant, trial.pk)
    assert (stopped.judged, stopped.error) == (0, "bob stopped the dry run.")
