"""Tests of the table of failures, with the real SDK against the local Messages API."""

import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from handoffaudit.llm.calls import Caller
from handoffaudit.llm.claude import ClaudeClient
from handoffaudit.validation.prompts import layer_questions
from handoffaudit.validation.prompts.pricing import ROOM_FOR_THINKING
from handoffaudit.validation.prompts.question import Reason, Role, Unavailable, Use
from handoffaudit.validation.repair import by_model
from tests.llm.asked import VALID, question
from tests.llm.conftest import KEY, MODELS
from tests.messages_api.scripted import Scripted, cuts, fails, says


def test_the_answer_comes_with_what_it_cost(api, caller_of):
    api.script(says(VALID, usage={"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 5000}))
    call = caller_of().call(question())
    assert call.error is None
    assert (call.answer.value.valid, call.answer.model, call.tries) == (True, "claude-haiku-5-5", 1)
    assert (call.usage.tokens_in, call.usage.tokens_out, call.usage.tokens_cached) == (1000, 100, 5000)
    assert call.cost_usd == call.answer.cost_usd == pytest.approx((1000 * 0.10 + 100 * 0.50 + 5000 * 0.01) / 1e6)
    assert call.latency_ms > 0


def test_the_request_has_what_current_models_take_and_no_more(api, caller_of):
    caller_of().call(question())
    (request,) = api.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json == {
        "model": "claude-haiku-5-5",
        "max_tokens": 1024 + ROOM_FOR_THINKING,
        "system": question().instructions,
        "messages": [{"role": "user", "content": question().content}],
        "output_config": {"format": {"type": "json_schema", "schema": question().schema}, "effort": "low"},
    }


def test_what_was_prepared_is_not_made_again(api, monkeypatch):
    client = ClaudeClient("anthropic", KEY, api.url)
    client.prepare()
    monkeypatch.setattr(client, "_make_client", lambda: pytest.fail("the client is made again"))
    assert Caller(client, {Role.FAST: "claude-haiku-5-5"}).call(question()).error is None
    with pytest.raises(Unavailable):
        ClaudeClient("anthropic", "not a key").prepare()


def test_half_a_character_does_no_harm(api, caller_of):
    api.script(says('{"valid": "\\ud83d"}'), says(VALID))
    call = caller_of().call(question(content="cut \ud83d", instructions="cut \ud83d"))
    assert (call.error, call.tries) == (None, 2)
    assert (api.requests[0].content, api.requests[0].system) == ("cut ?", "cut ?")


def test_a_role_has_its_model(api, caller_of):
    assert caller_of().call(question(role=Role.CAREFUL)).model == "claude-sonnet-5-5"
    assert api.requests[0].model == "claude-sonnet-5-5"


@pytest.mark.parametrize(
    ("model", "config"),
    [
        ("claude-haiku-4-5", {}),
        ("claude-sonnet-4-6", {}),
        ("anthropic.claude-haiku-5-5", {"effort": "low"}),
        ("claude-opus-5-5", {"effort": "low"}),
        ("claude-opus-10", {"effort": "low"}),
        ("another-model", {}),
    ],
)
def test_only_models_that_know_it_are_told_how_much_to_think(api, model, config):
    caller = Caller(ClaudeClient("anthropic", KEY, api.url), {Role.FAST: model})
    caller.call(question())
    sent = api.requests[0].json["output_config"]
    assert {name: value for name, value in sent.items() if name != "format"} == config


@pytest.mark.parametrize(
    ("asked", "use"),
    [
        (question(), Use.GROUNDING),
        (layer_questions.objective_question("Sum up.", "The sum."), Use.OBJECTIVE),
        (layer_questions.opinion_question({"a": 1}, {}, []), Use.CRITIQUE),
        (by_model.repair_question({"a": 1}, []), Use.REPAIR),
    ],
    ids=lambda one: getattr(one, "value", ""),
)
def test_every_use_is_taken_by_the_api(api, caller_of, asked, use):
    call = caller_of().call(asked)
    assert call.error is None
    assert api.requests[0].use is use


@pytest.mark.parametrize(
    ("answers", "reason", "status", "tries"),
    [
        ([fails(429)] * 3, Reason.RATE_LIMIT, 429, 3),
        ([fails(529)] * 3, Reason.OVERLOADED, 529, 3),
        ([fails(500)] * 3, Reason.SERVER_ERROR, 500, 3),
        ([fails(503)] * 3, Reason.SERVER_ERROR, 503, 3),
        ([fails(504)] * 3, Reason.TIMEOUT, 504, 3),
        ([cuts("before")] * 3, Reason.CONNECTION, None, 3),
        ([cuts("header")] * 3, Reason.CONNECTION, None, 3),
        ([cuts("body")] * 3, Reason.CONNECTION, None, 3),
        ([Scripted(raw=b'{"id": ')] * 3, Reason.SERVER_ERROR, None, 3),
        ([Scripted(raw=b"{}")] * 3, Reason.SERVER_ERROR, None, 3),
        ([Scripted(raw=b"[1]")] * 3, Reason.SERVER_ERROR, None, 3),
        ([Scripted(raw=b'{"content": 5}')] * 3, Reason.SERVER_ERROR, None, 3),
        ([Scripted(raw=b"<p>Gateway</p>", content_type="text/html")] * 3, Reason.SERVER_ERROR, None, 3),
        ([fails(400)], Reason.REFUSED, 400, 1),
        ([fails(401)], Reason.REFUSED, 401, 1),
        ([fails(402)], Reason.REFUSED, 402, 1),
        ([fails(403)], Reason.REFUSED, 403, 1),
        ([fails(404)], Reason.REFUSED, 404, 1),
        ([fails(413)], Reason.REFUSED, 413, 1),
        ([fails(418)], Reason.REFUSED, 418, 1),
        ([fails(302, retry_after=1)], Reason.REFUSED, 302, 1),
    ],
    ids=lambda one: str(one)[:0] if isinstance(one, list) else str(one),
)
def test_a_failure_is_unavailable_with_its_reason_and_tries(api, caller_of, answers, reason, status, tries):
    api.script(*answers)
    call = caller_of().call(question())
    assert call.answer is None
    assert (call.error.reason, call.error.status, call.tries) == (reason, status, tries)
    assert len(api.requests) == tries
    assert call.error.detail.endswith(".")
    assert len(call.error.detail) <= 500


@pytest.mark.parametrize("failure", [fails(429), fails(529), fails(500), cuts("body"), Scripted(raw=b"{")])
def test_what_passes_is_tried_again_until_it_is_answered(api, caller_of, failure):
    api.script(failure, failure, says(VALID))
    call = caller_of().call(question())
    assert (call.error, call.answer.value.valid, call.tries) == (None, True, 3)


def test_a_redirect_is_not_followed_and_the_key_stays_here(api, caller_of):
    api.script(Scripted(status=307, headers={"location": f"{api.url}/elsewhere"}))
    call = caller_of().call(question())
    assert call.error.status == 307
    assert [request.path for request in api.requests] == ["/v1/messages"]


@pytest.mark.parametrize(
    "slow",
    [says(VALID, delay=100), says(" " * 5000, drip=0.02), fails(529, message="x" * 5000, drip=0.02)],
    ids=["late", "drip", "error"],
)
def test_no_answer_takes_longer_than_the_limit_however_it_drips(api, caller_of, slow):
    api.script(slow)
    started = time.monotonic()
    call = caller_of(seconds=0.4).call(question())
    assert (call.error.reason, call.tries) == (Reason.TIMEOUT, 1)
    assert call.error.detail == "The LLM did not answer within 0.4 seconds."
    assert 0.35 < time.monotonic() - started < 60


def test_the_limit_is_for_all_tries_together(api, caller_of):
    api.script(fails(529, delay=0.2), says(VALID, delay=100))
    started = time.monotonic()
    call = caller_of(seconds=2.0).call(question())
    assert (call.error.reason, call.tries) == (Reason.TIMEOUT, 2)
    assert 1.9 < time.monotonic() - started < 60


def test_who_cannot_be_connected_to_is_given_up_after_the_connect_limit(full_port):
    client = ClaudeClient("anthropic", KEY, f"http://127.0.0.1:{full_port}", connect_seconds=0.2)
    started = time.monotonic()
    call = Caller(client, MODELS, seconds=200, tries=2, sleep=lambda _seconds: None).call(question())
    assert (call.error.reason, call.tries) == (Reason.TIMEOUT, 2)
    assert "took longer than 0.2 seconds" in call.error.detail
    assert time.monotonic() - started < 60


def test_a_closed_port_is_a_broken_connection(closed_port):
    client = ClaudeClient("anthropic", KEY, f"http://127.0.0.1:{closed_port}")
    call = Caller(client, MODELS, sleep=lambda _seconds: None).call(question())
    assert (call.error.reason, call.tries) == (Reason.CONNECTION, 3)


@pytest.mark.parametrize("base_url", ["not a url", "ftp://example.invalid", "http://"])
def test_an_address_that_is_none_is_an_outage_too(base_url):
    call = Caller(ClaudeClient("anthropic", KEY, base_url), MODELS, sleep=lambda _seconds: None).call(question())
    assert call.error.reason is Reason.CONNECTION


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2),
        ("0.5", 0.5),
        ("0", 0),
        ("-5", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("99999999", 3600),
        ("", None),
    ],
)
def test_retry_after_is_read_and_bounded(api, caller_of, header, seconds):
    api.script(fails(429, retry_after=header))
    assert caller_of(tries=1).call(question()).error.retry_after == seconds


def test_retry_after_may_be_a_date(api, caller_of):
    api.script(fails(429, retry_after=format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)))
    assert 80 < caller_of(tries=1).call(question()).error.retry_after <= 90


@pytest.mark.parametrize(
    "answer",
    [
        says("I think that it is fine."),
        says('{"valid": '),
        says({"valid": "yes", "issues": []}),
        says([VALID]),
        says(""),
        says(VALID, stop_reason="max_tokens"),
        says(VALID, stop_reason="refusal"),
        says(VALID, stop_reason="model_context_window_exceeded"),
        Scripted(blocks=()),
    ],
)
def test_a_malformed_answer_is_shown_to_the_model_once(api, caller_of, answer):
    api.script(answer, says(VALID))
    call = caller_of().call(question())
    assert (call.error, call.answer.value.valid, call.tries) == (None, True, 2)
    first, *shown, last = api.requests[1].json["messages"]
    assert first["content"] == question().content
    assert [one["role"] for one in shown] in ([], ["assistant"])
    assert (last["role"], last["content"][:27]) == ("user", "That answer cannot be used.")

    api.reset()
    api.script(answer, answer)
    failed = caller_of().call(question())
    assert (failed.error.reason, failed.tries) == (Reason.MALFORMED_ANSWER, 2)
    assert failed.usage.tokens_out > 0
    assert failed.cost_usd > 0


def test_what_is_wrong_with_the_answer_is_told_to_the_model(api, caller_of):
    api.script(says({"valid": "yes", "issues": []}), says(VALID))
    caller_of().call(question())
    _, said, told = api.requests[1].json["messages"]
    assert said == {"role": "assistant", "content": '{"valid": "yes", "issues": []}'}
    assert '"valid" is neither true nor false.' in told["content"]


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "text", "text": '```json\n{"valid": true, "issues": []}\n```'}],
        [{"type": "text", "text": '{"valid": true,'}, {"type": "text", "text": ' "issues": []}'}],
        [{"type": "thinking", "thinking": "", "signature": "s"}, {"type": "text", "text": '{"valid": true}'}],
        [{"type": "tool_use", "id": "toolu_1", "name": "answer", "input": VALID}],
        [{"type": "text", "text": " "}, {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": VALID}],
    ],
    ids=["fenced", "two texts", "thinking first", "tool", "tool after blank"],
)
def test_the_answer_is_found_wherever_the_message_has_it(api, caller_of, blocks):
    api.script(Scripted(blocks=tuple(blocks)))
    call = caller_of().call(question())
    assert (call.error, call.tries) == (None, 1)
    assert call.answer.value.valid is True


def test_tokens_are_summed_over_all_tries(api, caller_of):
    usage = {"input_tokens": 100, "output_tokens": 10}
    api.script(says("no", usage=usage), fails(529), says(VALID, usage=usage))
    call = caller_of().call(question())
    assert (call.usage.tokens_in, call.usage.tokens_out, call.tries) == (200, 20, 3)


@pytest.mark.parametrize("usage", [{"input_tokens": -5}, {"input_tokens": "many"}, {"output_tokens": 10**30}])
def test_counts_that_make_no_sense_do_no_harm(api, caller_of, usage):
    api.script(says(VALID, usage=usage))
    call = caller_of().call(question())
    assert call.error is None
    assert 0 <= call.usage.tokens_in <= 10**7
    assert 0 <= call.usage.tokens_out <= 10**7


def test_what_is_counted_of_all_tries_fits_into_a_row(api, caller_of):
    usage = dict.fromkeys(("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"), 10**12)
    api.script(says("no", usage=usage), says(VALID, usage=usage))
    assert caller_of().call(question()).usage.tokens_in < 2**31


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_is_refused_says_what_to_fix_in_the_services_words_and_without_the_key(api, caller_of, status):
    api.script(fails(status, message=f"no good:\n{KEY} " + "x" * 1000))
    error = caller_of().call(question()).error
    assert "no good: [masked]" in error.detail
    assert KEY not in str(error)
    assert len(error.detail) < 500


@pytest.mark.parametrize("failure", [fails(401, message=KEY), cuts("header"), Scripted(raw=b"{"), says("no")])
def test_the_key_is_in_no_log_and_no_error(api, caller_of, caplog, failure):
    caplog.set_level(logging.DEBUG)
    api.script(failure, failure, failure)
    caller = caller_of()
    call = caller.call(question())
    assert KEY not in caplog.text
    assert KEY not in repr(call)
    assert KEY not in repr(caller._client)


@pytest.mark.parametrize("key", ["sk ant", "sk-änt", "sk-ant\n", "sk\x00"])
def test_a_key_that_none_can_be_is_not_sent(api, key):
    call = Caller(ClaudeClient("anthropic", key, api.url), MODELS).call(question())
    assert (call.error.reason, api.requests) == (Reason.REFUSED, [])
    assert (
        call.error.detail == "ANTHROPIC_API_KEY contains characters that are not allowed in a key: copy the key again."
    )


def test_bedrock_is_asked_in_its_own_way(api, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-key")
    caller = Caller(ClaudeClient("bedrock", "", api.url), {Role.FAST: "anthropic.claude-haiku-5-5"})
    call = caller.call(question())
    assert (call.error, call.answer.value.valid) == (None, True)
    assert api.requests[0].path == "/model/anthropic.claude-haiku-5-5/invoke"
    assert api.requests[0].headers["authorization"] == "Bearer bedrock-key"


@pytest.mark.parametrize("provider", ["bedrock", "vertex"])
def test_a_provider_that_is_not_set_up_says_what_is_missing(api, monkeypatch, tmp_path, provider):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK", "CLOUD_ML_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    call = Caller(ClaudeClient(provider, "", api.url), MODELS).call(question())
    assert (call.error.reason, call.tries, api.requests) == (Reason.REFUSED, 1, [])
    assert f"install handoffaudit[{provider}]" in call.error.detail


def test_there_is_no_other_provider():
    with pytest.raises(ValueError, match="Unknown provider 'other': choose one of anthropic, bedrock, vertex"):
        ClaudeClient("other", KEY)
