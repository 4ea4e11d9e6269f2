"""Tests of sample data: a tenant of its own, filled in any situation, and removed completely."""

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import islice, product

import orjson
import pytest
from django.apps import apps
from django.db import models
from django.utils import timezone

from handoffaudit.accounts import Refused, audit, keys, people
from handoffaudit.accounts.models import AuditEntry, Membership, Person, Role, Tenant
from handoffaudit.diagnostics import attribution, sample_tenants, tasks
from handoffaudit.diagnostics.logs import index
from handoffaudit.diagnostics.models import FileReport, LogBlock
from handoffaudit.handoffs import judge, transitions
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.formats.file_report import Fallback, Reason, judge_report
from handoffaudit.validation.logs.lines import Kind
from handoffaudit.validation.logs.reader import read_line
from tests.access.support import everything
from tests.handoffs.support import at_once

# Rows of the whole product, which belong to no tenant.
OF_NO_TENANT = {"Tenant", "Person", "ModelBreaker", "Gathering", "JudgeLease", "Watermark", "MetricTotal"}
LATER = timedelta(days=1)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut the sample to a few submissions and reports, because the whole sample takes long to judge."""
    handoffs = list(sample_tenants.bundled_submissions("sample"))[40:60]
    reports = sample_tenants.bundled_reports
    monkeypatch.setattr(sample_tenants, "bundled_submissions", lambda _: iter(handoffs))
    monkeypatch.setattr(sample_tenants, "bundled_reports", lambda until: islice(reports(until), 6))
    monkeypatch.setattr(sample_tenants, "count_submissions", lambda: 26)


@pytest.fixture
def sample(admin: Person, tenant: Tenant, few: None) -> Tenant:
    made = sample_tenants.create_sample(person=admin, origin=tenant)
    sample_tenants.fill_sample(made)
    judge.drain()
    return made


def test_it_is_a_tenant_of_its_own_that_the_person_administers(admin: Person, tenant: Tenant) -> None:
    made = sample_tenants.create_sample(person=admin, origin=tenant)
    assert (made.slug, made.is_sample) == ("sample", True)
    assert Membership.objects.get(tenant=made).role == Role.ADMIN
    assert sample_tenants.create_sample(person=admin, origin=tenant) == made
    assert AuditEntry.objects.filter(tenant=tenant, action="sample.create", target="sample").count() == 1
    with pytest.raises(Refused):
        sample_tenants.create_sample(person=admin, origin=made)


def test_another_persons_is_another_one(admin: Person, tenant: Tenant, other_tenant: Tenant) -> None:
    first = sample_tenants.create_sample(person=admin, origin=tenant)
    second = sample_tenants.create_sample(person=Person.objects.create_user("ada"), origin=other_tenant)
    assert (first.slug, second.slug) == ("sample", "sample-2")


@pytest.mark.django_db(transaction=True)
def test_those_of_several_tenants_are_created_at_once(
    admin: Person, tenant: Tenant, other_tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, free_slug = Person.objects.create_user("ada"), sample_tenants._free_slug

    def choose_slowly() -> str:
        slug = free_slug()
        time.sleep(0.05)
        return slug

    monkeypatch.setattr(sample_tenants, "_free_slug", choose_slowly)
    of = [(admin, tenant), (admin, other_tenant), (ada, other_tenant)]
    made = at_once(*(partial(sample_tenants.create_sample, person=person, origin=origin) for person, origin in of))
    assert [one for one in made if isinstance(one, Exception)] == []
    assert made[0] == made[1] != made[2]
    assert sorted({one.slug for one in made}) == ["sample", "sample-2"]


def test_it_holds_handoffs_files_and_logs_and_says_how_far_it_is(sample: Tenant) -> None:
    index.drain(60)
    assert FileReport.objects.filter(tenant=sample).count() == 6
    lines = LogBlock.objects.filter(tenant=sample).aggregate(sum=models.Sum("lines"))["sum"]
    assert lines == sum(log.count(b"\n") for _, log in sample_tenants.bundled_logs(sample.created_at)) > 300
    found = sample_tenants.load_progress(sample)
    assert (found.number, found.judged, found.filled, found.done) == (26, 26, True, True)
    assert list(sample_tenants.list_unfilled()) == []


def test_filling_it_again_adds_nothing(sample: Tenant) -> None:
    before = Handoff.objects.count(), FileReport.objects.count(), LogBlock.objects.count()
    sample_tenants.fill_sample(sample)
    assert (Handoff.objects.count(), FileReport.objects.count(), LogBlock.objects.count()) == before


def test_nothing_of_it_names_the_wrong_tenant(sample: Tenant) -> None:
    """A document that names another tenant would be rejected."""
    assert Handoff.objects.filter(tenant=sample).exclude(state="rejected").exists()
    assert {
        sent.envelope.handoff_id for sent in sample_tenants.bundled_submissions("sample") if not sent.document
    } == set()


def test_times_lead_up_to_now() -> None:
    now = timezone.now().replace(microsecond=0)
    for _, log in sample_tenants.bundled_logs(now):
        assert b"2026-02-14" not in log or now.year == 2026
    newest = max(report for _, report in sample_tenants.bundled_reports(now))
    assert newest


def test_removed_it_leaves_no_row_and_touches_nobody_elses(
    admin: Person, tenant: Tenant, other_tenant: Tenant, few: None
) -> None:
    before = everything()
    made = sample_tenants.create_sample(person=admin, origin=tenant)
    sample_tenants.fill_sample(made)
    judge.drain()
    attribution.run()
    index.drain(60)
    _, secret = keys.create(tenant=made, name="try", scopes=["read"], expires_at=None, actor="ada")
    assert keys.authenticate(secret) is not None
    assert sample_tenants.remove_sample(tenant=made, person=admin) == tenant
    assert keys.authenticate(secret) is None
    assert not Membership.objects.filter(tenant=made).exists()
    assert sample_tenants.clear_sample(made) is False
    assert not Handoff.objects.filter(tenant=made).exists()
    assert sample_tenants.clear_sample(made, timezone.now() + LATER) is True
    after = everything()
    told = {"accounts.AuditEntry", "accounts.Tenant", "diagnostics.Watermark"}
    assert {name for name in after if after[name] != before[name]} <= told
    assert not Tenant.objects.filter(is_sample=True).exists()
    actions = list(AuditEntry.objects.filter(tenant=tenant).order_by("number").values_list("action", flat=True))
    assert actions[-2:] == ["sample.create", "sample.remove"]
    assert audit.verify(Tenant.objects.get(pk=tenant.pk)) is None


def test_what_comes_late_goes_with_the_last_pass(sample: Tenant, admin: Person) -> None:
    sample_tenants.remove_sample(tenant=sample, person=admin)
    sample_tenants.clear_sample(sample)
    store.accept_many(sample, transitions.SYSTEM, list(sample_tenants.bundled_submissions(sample.slug))[:2])
    assert sample_tenants.clear_sample(sample, timezone.now() + LATER) is True
    assert not Handoff.objects.filter(tenant_id=sample.pk).exists()


def test_a_removed_one_is_not_filled_on(admin: Person, tenant: Tenant, few: None) -> None:
    made = sample_tenants.create_sample(person=admin, origin=tenant)
    sample_tenants.remove_sample(tenant=made, person=admin)
    assert list(sample_tenants.list_unfilled()) == []
    sample_tenants.fill_sample(made)
    assert not Handoff.objects.filter(tenant=made).exists()


def test_where_it_came_from_is_told_also_when_another_member_removes_it(admin: Person, tenant: Tenant) -> None:
    made = sample_tenants.create_sample(person=admin, origin=tenant)
    ada = people.invite(tenant=made, name="ada", role=Role.ADMIN, actor="root").person
    assert sample_tenants.remove_sample(tenant=made, person=ada) is None, "where it came from is not theirs to see"
    told = AuditEntry.objects.get(tenant=tenant, action=sample_tenants.REMOVED)
    assert (told.actor, told.target) == ("ada", made.slug)


def test_a_tenant_that_is_no_sample_is_never_removed(admin: Person, tenant: Tenant) -> None:
    with pytest.raises(Refused):
        sample_tenants.remove_sample(tenant=tenant, person=admin)
    with pytest.raises(Refused):
        sample_tenants.clear_sample(tenant)
    Membership.objects.filter(tenant=tenant).delete()
    with pytest.raises(Refused):
        sample_tenants.clear_sample(tenant)
    assert Tenant.objects.filter(pk=tenant.pk).exists()


def test_who_looks_at_a_sample_can_still_be_given_a_new_link(admin: Person, tenant: Tenant) -> None:
    sample_tenants.create_sample(person=admin, origin=tenant)
    assert people.new_link(tenant=tenant, person=admin, actor="another").path


def test_who_is_removed_from_the_last_tenant_keeps_no_sample_and_no_key_of_it(admin: Person, tenant: Tenant) -> None:
    ada = people.invite(tenant=tenant, name="ada", role=Role.ADMIN, actor="root").person
    made = sample_tenants.create_sample(person=ada, origin=tenant)
    _, secret = keys.create(tenant=made, name="k", scopes=["read"], expires_at=None, actor="ada")
    people.remove(tenant=tenant, person=ada, actor="root")
    assert keys.authenticate(secret) is None
    assert list(sample_tenants.list_removed()) == [made]
    assert not sample_tenants.clear_sample(made), "a process may still know the key"
    assert sample_tenants.clear_sample(made, now=timezone.now() + LATER)
    assert people.invite(tenant=tenant, name="ada", role=Role.VIEWER, actor="root").person == ada


def test_who_belongs_to_another_tenant_keeps_the_sample(admin: Person, tenant: Tenant, other_tenant: Tenant) -> None:
    ada = people.invite(tenant=tenant, name="ada", role=Role.ADMIN, actor="root").person
    Membership.objects.create(tenant=other_tenant, person=ada, role=Role.VIEWER)
    made = sample_tenants.create_sample(person=ada, origin=tenant)
    people.remove(tenant=tenant, person=ada, actor="root")
    assert Membership.objects.filter(tenant=made, person=ada).exists()


def test_every_model_is_removed_or_belongs_to_no_tenant() -> None:
    """The test fails for a new Django model whose rows would be left behind."""
    parts = {part for group in sample_tenants.dependent_models().values() for part, _ in group}
    reached = {*sample_tenants.tenant_models(), *parts, AuditEntry}
    rest = {model for model in _all_models() if model not in reached}
    assert {model.__name__ for model in rest} == OF_NO_TENANT


def _all_models() -> list[type[models.Model]]:
    return [model for name in sample_tenants.APPS for model in apps.get_app_config(name).get_models()]


def test_files_of_every_reason_and_lines_of_every_form_are_there() -> None:
    found = [judge_report(orjson.loads(report)) for _, report in sample_tenants.bundled_reports(timezone.now())]
    assert {(one.reason, one.fallback) for one in found} == {(None, None), *product(Reason, (None, *Fallback))} - {
        (Reason.SCHEMA_INVALID, Fallback.FAILED)
    }
    assert any(one.wrong_path for one in found)
    lines = [
        read_line(line) for _, log in sample_tenants.bundled_logs(timezone.now()) for line in log.decode().splitlines()
    ]
    assert {line.kind for line in lines} == set(Kind)


def test_a_sample_that_fails_keeps_no_other_waiting(
    admin: Person, tenant: Tenant, other_tenant: Tenant, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, kept = (Person.objects.create_user(name) for name in ("ada", "rui"))
    for_admin, for_removed, for_kept = (
        sample_tenants.create_sample(person=person, origin=other_tenant) for person in (admin, removed, kept)
    )
    sample_tenants.remove_sample(tenant=for_removed, person=removed)
    fill, clear = sample_tenants.fill_sample, sample_tenants.clear_sample

    def fail_for(broken: Tenant, do: Callable[[Tenant], object], one: Tenant) -> None:
        if one == broken:
            raise KeyError(one.pk)
        do(one)

    monkeypatch.setattr(sample_tenants, "clear_sample", partial(fail_for, for_removed, clear))
    monkeypatch.setattr(sample_tenants, "fill_sample", partial(fail_for, for_admin, fill))
    with pytest.raises(KeyError):
        tasks.tend_samples()
    assert list(sample_tenants.list_unfilled()) == [for_admin]
    assert sample_tenants.load_progress(for_kept).filled


def test_files_and_logs_beside_the_handoffs_of_ones_own_tenant_come_once(tenant: Tenant, few: None) -> None:
    sample_tenants.fill_beside(tenant)
    first = FileReport.objects.order_by("at").values_list("at", flat=True)[0]
    before = Handoff.objects.count(), FileReport.objects.count(), LogBlock.objects.count()
    assert min(before) > 0
    sample_tenants.fill_beside(tenant)
    assert (Handoff.objects.count(), FileReport.objects.count(), LogBlock.objects.count()) == before
    assert FileReport.objects.order_by("at").values_list("at", flat=True)[0] == first
