"""Tests of the product's LLM client with the real SDK and a server that speaks its protocol."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.llm import client
from handoffaudit.handoffs.models import ModelAnswer, ModelBreaker, ModelCall, ModelSpend
from handoffaudit.validation.prompts.question import MalformedAnswer, Reason, Unavailable
from tests.handoffs.asking_support import FAST, question
from tests.handoffs.support import at_once
from tests.messages_api.scripted import fails, says
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server(model: MessagesServer) -> MessagesServer:
    """Return the server that `model_for` asks."""
    return model


def unavailable(tenant: Tenant, asked=None) -> Unavailable:
    with pytest.raises(Unavailable) as caught:
        client.model_for(tenant.pk, None).ask(asked or question())
    return caught.value


def test_an_answer_comes_and_is_recorded_with_its_cost(tenant: Tenant, server: MessagesServer) -> None:
    handoff = uuid4()
    server.script(says({"valid": True}, usage={"input_tokens": 1000, "output_tokens": 200}))
    answer = client.model_for(tenant.pk, handoff).ask(question())
    assert (answer.value, answer.model, answer.cached) == ({"valid": True}, FAST, False)
    [call] = ModelCall.objects.filter(tenant=tenant)
    assert (call.handoff, call.use, call.model, call.prompt) == (handoff, "grounding", FAST, "grounding@1")
    assert (call.outcome, call.tries, call.cached, call.tokens_in, call.tokens_out) == ("ok", 1, False, 1000, 200)
    assert call.cost_usd == answer.cost_usd > 0
    assert call.latency_ms == answer.latency_ms > 0
    assert ModelSpend.objects.get(tenant=tenant).usd == pytest.approx(answer.cost_usd)


def test_without_a_key_nothing_is_asked(tenant: Tenant, settings) -> None:
    settings.ANTHROPIC_API_KEY = "  "
    assert not client.is_configured()
    error = unavailable(tenant)
    assert error.reason is Reason.NO_KEY
    assert "ANTHROPIC_API_KEY" in error.detail
    assert not ModelCall.objects.exists()


def test_an_equal_question_is_asked_once_and_costs_nothing_later(tenant: Tenant, server: MessagesServer) -> None:
    server.script(says({"valid": False}))
    model = client.model_for(tenant.pk, None)
    first, second = model.ask(question()), model.ask(question())
    assert len(server.requests) == 1
    assert (second.cached, second.value, second.cost_usd) == (True, {"valid": False}, first.cost_usd)
    later = ModelCall.objects.order_by("id").last()
    assert (later.cached, later.cost_usd, later.tries, later.outcome) == (True, 0, 0, "ok")
    assert ModelSpend.objects.get(tenant=tenant).usd == pytest.approx(first.cost_usd)


@pytest.mark.parametrize(
    "change",
    [
        {"content": "Four suppliers deliver."},
        {"instructions": "Is it really so?"},
        {"max_tokens": 2000},
        {"schema": {"type": "object", "additionalProperties": False, "properties": {"valid": {"type": "string"}}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_question_is_asked_anew(change, tenant: Tenant, server: MessagesServer) -> None:
    model = client.model_for(tenant.pk, None)
    model.ask(question())
    assert not model.ask(question(**change)).cached
    assert len(server.requests) == 2


def test_the_same_words_by_a_prompt_that_was_only_renamed_are_asked_once(
    tenant: Tenant, server: MessagesServer
) -> None:
    model = client.model_for(tenant.pk, None)
    model.ask(question())
    assert model.ask(question(prompt="grounding@2")).cached
    assert len(server.requests) == 1


def test_another_model_and_another_tenant_are_asked_anew(
    tenant: Tenant, other_tenant: Tenant, server: MessagesServer, settings
) -> None:
    client.model_for(tenant.pk, None).ask(question())
    assert not client.model_for(other_tenant.pk, None).ask(question()).cached
    settings.MODEL_FAST = "claude-haiku-4-5"
    assert not client.model_for(tenant.pk, None).ask(question()).cached
    assert len(server.requests) == 3


def test_an_answer_that_is_too_old_or_no_longer_reads_does_not_count(tenant: Tenant, server: MessagesServer) -> None:
    def read(text: str) -> str:
        if "true" not in text:
            raise MalformedAnswer("It must be true.")
        return text

    model = client.model_for(tenant.pk, None)
    model.ask(question())
    ModelAnswer.objects.update(at=timezone.now() - timedelta(days=31))
    assert not model.ask(question()).cached
    assert model.ask(question()).cached
    ModelAnswer.objects.update(text='{"valid": false}')
    assert not model.ask(question(read=read)).cached
    assert ModelAnswer.objects.get().text == '{"valid": true, "issues": []}'
    assert len(server.requests) == 3


def test_text_that_is_no_unicode_has_a_key_of_its_own() -> None:
    keys = {client.answer_key(FAST, question(text)) for text in ("a", "a\ud800", "a\ud801", "a\\ud800")}
    assert len(keys) == 4


def test_equal_questions_at_the_same_moment_are_asked_once(tenant: Tenant, server: MessagesServer) -> None:
    server.script(says({"valid": True}, delay=0.5))
    model = client.model_for(tenant.pk, None)
    answers = at_once(*[lambda: model.ask(question())] * 12)
    assert [answer.value for answer in answers] == [{"valid": True}] * 12
    assert len(server.requests) == 1
    assert sorted(ModelCall.objects.values_list("cached", flat=True)) == [False] + [True] * 11


def test_who_waited_for_an_equal_question_hears_of_its_failure_too(tenant: Tenant, server: MessagesServer) -> None:
    server.script(fails(529, delay=0.5))
    model = client.model_for(tenant.pk, None)
    errors = at_once(*[lambda: model.ask(question())] * 5)
    assert {error.reason for error in errors} == {Reason.OVERLOADED}
    assert len({id(error) for error in errors}) == 5
    assert len(server.requests) == 1
    assert sorted(ModelCall.objects.values_list("tries", flat=True)) == [0, 0, 0, 0, 1]


def test_a_failure_is_recorded_with_its_status_and_costs_nothing(tenant: Tenant, server: MessagesServer) -> None:
    server.script(fails(401, message="invalid x-api-key"))
    assert unavailable(tenant).status == 401
    [call] = ModelCall.objects.all()
    assert (call.outcome, call.http_status, call.cost_usd) == ("refused", 401, 0)
    assert "ANTHROPIC_API_KEY" in call.detail
    assert ModelSpend.objects.get().usd == pytest.approx(0)
    assert not ModelAnswer.objects.exists()


def test_an_answer_that_cannot_be_read_is_paid_but_not_kept(tenant: Tenant, server: MessagesServer) -> None:
    server.script(*[says("no JSON", usage={"input_tokens": 1000, "output_tokens": 10})] * 2)
    assert unavailable(tenant).reason is Reason.MALFORMED_ANSWER
    [call] = ModelCall.objects.all()
    assert (call.outcome, call.tokens_in, call.tries) == ("malformed_answer", 2000, 2)
    assert ModelSpend.objects.get().usd == pytest.approx(call.cost_usd)
    assert call.cost_usd > 0
    assert not ModelAnswer.objects.exists()
    assert not ModelBreaker.objects.exists()


def test_what_would_cost_too_much_is_not_asked(tenant: Tenant, server: MessagesServer) -> None:
    assert unavailable(tenant, question(max_cost_usd=0.000001)).reason is Reason.TOO_DEAR
    assert not server.requests
    assert not ModelSpend.objects.exists()


def test_an_answer_that_the_database_cannot_hold_is_given_all_the_same(tenant: Tenant, server: MessagesServer) -> None:
    server.script(says("\x00 or \ud800"), says("\x00 or \ud800"))
    model = client.model_for(tenant.pk, None)
    plain = question(read=lambda text: text)
    assert [model.ask(plain).text, model.ask(plain).text] == ["\x00 or \ud800"] * 2
    assert ModelCall.objects.filter(outcome="ok", tries=1).count() == 2


def test_asking_inside_a_transaction_is_our_bug(tenant: Tenant, server: MessagesServer) -> None:
    """A rollback would lose the record of the call, and the call would be paid for again."""
    with pytest.raises(RuntimeError), transaction.atomic():
        client.model_for(tenant.pk, None).ask(question())


def test_no_connection_is_held_while_the_model_thinks(tenant: Tenant, server: MessagesServer) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no pool of connections")
    most = connection.settings_dict["OPTIONS"]["pool"]["max_size"]
    server.respond = lambda request: says({"valid": True}, delay=1.5)
    model = client.model_for(tenant.pk, None)
    answers = at_once(*[lambda n=n: model.ask(question(f"Number {n}")) for n in range(4 * most)])
    assert [answer.value for answer in answers] == [{"valid": True}] * (4 * most)
    assert server.most_in_flight > most


def test_a_paid_answer_is_not_lost_with_the_database(tenant: Tenant, server: MessagesServer, monkeypatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(ModelCall, "save", lambda *_, **__: away())
    answer = client.model_for(tenant.pk, None).ask(question())
    assert answer.value == {"valid": True, "issues": []}
    assert not ModelCall.objects.exists()
    # Rather too much: nobody knows what it did cost.
    assert ModelSpend.objects.get().usd > answer.cost_usd


def test_old_answers_are_forgotten_a_bite_at_a_time(tenant: Tenant, settings, monkeypatch) -> None:
    monkeypatch.setattr(client, "FORGOTTEN_AT_ONCE", 3)
    now = timezone.now()
    ModelAnswer.objects.bulk_create(
        ModelAnswer(
            tenant=tenant, key=str(n), model="m", text="", cost_usd=0, latency_ms=0, at=now - timedelta(days=n + 26)
        )
        for n in range(10)
    )
    assert [client.delete_old_answers() for _ in range(3)] == [3, 3, 0]
    assert set(ModelAnswer.objects.values_list("key", flat=True)) == {"0", "1", "2", "3"}


def test_a_model_with_a_long_name_gets_a_breaker(tenant: Tenant, server: MessagesServer, settings) -> None:
    # Without the limit of the column, SQLite would store the whole name, and PostgreSQL no breaker at all.
    profile = "global.anthropic.claude-sonnet-4-5-20250929-v1:0"
    settings.MODEL_FAST = f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/{profile}"
    settings.MODEL_BREAKER_FAILURES, settings.MODEL_TRIES = 2, 1
    server.script(fails(529), fails(529))
    reasons = [unavailable(tenant, question(f"Supplier {number}.")).reason for number in range(3)]
    assert reasons == [Reason.OVERLOADED, Reason.OVERLOADED, Reason.BREAKER_OPEN]
    assert len(ModelBreaker.objects.get().model) <= 100


def test_the_limit_of_a_question_is_the_reason_even_if_the_budget_is_spent(
    tenant: Tenant, model: MessagesServer
) -> None:
    ModelSpend.objects.create(tenant=tenant, day=timezone.now().date(), usd=9.9999)
    assert unavailable(tenant, question(max_cost_usd=0.000001)).reason is Reason.TOO_DEAR
    assert unavailable(tenant).reason is Reason.BUDGET
