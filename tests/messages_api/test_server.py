"""Tests of the server against the SDK's own types, so that the server follows the SDK."""

import asyncio
import json
import subprocess
import sys
import time
import typing
from pathlib import Path

import anthropic
import httpx
import pytest
from anthropic.types import ErrorResponse, Message
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from pydantic import TypeAdapter

from handoffaudit.llm.calls import Caller
from handoffaudit.llm.claude import ClaudeClient
from handoffaudit.validation.prompts import layer_questions
from handoffaudit.validation.prompts.question import Role
from handoffaudit.validation.repair import by_model
from tests.messages_api.requests import FIELDS
from tests.messages_api.scripted import ERROR_TYPES, Scripted, cuts, fails, from_json, says
from tests.messages_api.server import running

ROOT = Path(__file__).parents[2]
QUESTIONS = {
    "grounding": layer_questions.grounding_question({"a": 1}, {"b": 2}, None),
    "objective": layer_questions.objective_question("Sum up.", "The sum."),
    "critique": layer_questions.opinion_question({"a": 1}, {}, []),
    "repair": by_model.repair_question({"a": 1}, []),
}
BODY = {"model": "claude-haiku-5-5", "max_tokens": 10, "messages": [{"role": "user", "content": "Well?"}]}


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture
def api(server):
    server.reset()
    return server


@pytest.fixture
def client(api):
    with anthropic.Anthropic(api_key="any", base_url=api.url, max_retries=0, timeout=60) as one:
        yield one


def posted(api, body=BODY, **headers):
    return httpx.post(f"{api.url}/v1/messages", json=body, headers={"x-api-key": "any", **headers})


@pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS)
def test_every_default_answer_is_a_message_that_its_question_reads(api, asked):
    Caller(ClaudeClient("anthropic", "any", api.url), {Role.FAST: "claude-haiku-5-5"}).call(asked)
    sent = api.requests[0]
    answer = posted(api, sent.json)
    message = Message.model_validate_json(answer.content, strict=True)
    assert asked.read(message.content[0].text) is not None


@pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS)
def test_every_request_of_ours_is_what_the_sdk_says_a_request_is(api, asked):
    Caller(ClaudeClient("anthropic", "any", api.url), {Role.FAST: "claude-haiku-5-5"}).call(asked)
    TypeAdapter(MessageCreateParamsNonStreaming).validate_python(api.requests[0].json)


def test_the_fields_of_a_request_are_those_of_the_sdk():
    assert typing.get_type_hints(MessageCreateParamsNonStreaming).keys() == FIELDS


@pytest.mark.parametrize(
    "scripted",
    [
        says("text"),
        says({"valid": True}, stop_reason="max_tokens", usage={"cache_read_input_tokens": 5}),
        Scripted(blocks=()),
        Scripted(
            blocks=({"type": "tool_use", "id": "toolu_1", "name": "answer", "input": {}},), stop_reason="tool_use"
        ),
        Scripted(blocks=({"type": "thinking", "thinking": "", "signature": "s"},), stop_reason="refusal"),
    ],
)
def test_every_success_is_a_message(api, scripted):
    api.script(scripted)
    Message.model_validate_json(posted(api).content)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (402, anthropic.PaymentRequiredError),
        (403, anthropic.PermissionDeniedError),
        (404, anthropic.NotFoundError),
        (413, anthropic.ContentTooLargeError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (504, anthropic.GatewayTimeoutError),
        (529, anthropic.OverloadedError),
    ],
)
def test_every_error_is_the_sdks_own(api, client, status, error):
    api.script(fails(status, message="scripted", retry_after=7), fails(status))
    with pytest.raises(error) as caught:
        client.messages.create(**BODY)
    assert (type(caught.value), caught.value.type) == (error, ERROR_TYPES[status])
    assert (caught.value.api_message, caught.value.response.headers["retry-after"]) == ("scripted", "7")
    ErrorResponse.model_validate_json(posted(api).content)


@pytest.mark.parametrize("where", ["before", "header", "body"])
def test_a_connection_can_be_cut(api, client, where):
    api.script(cuts(where))
    with pytest.raises(anthropic.APIConnectionError):
        client.messages.create(**BODY)


def test_answers_come_late_and_drip(api, client):
    api.script(says("late", delay=0.3), Scripted(raw=b"{}", drip=0.002))
    started = time.monotonic()
    assert client.messages.create(**BODY).content[0].text == "late"
    assert time.monotonic() - started >= 0.3
    started = time.monotonic()
    client.messages.create(**BODY)
    assert time.monotonic() - started >= 0.2


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"temperature": 0}, "not supported"),
        ({"messages": [*BODY["messages"], {"role": "assistant", "content": "{"}]}, "prefill"),
        ({"messages": [{"role": "user", "content": " "}]}, "non-empty"),
        ({"messages": []}, "messages"),
        ({"max_tokens": None}, "max_tokens"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}, "additionalProperties"),
    ],
)
def test_what_the_real_api_refuses_is_refused_here(api, change, said):
    answer = posted(api, {**BODY, **change})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_without_a_key_it_answers_401(api):
    assert posted(api, **{"x-api-key": ""}).status_code == 401


def test_a_request_is_kept_byte_by_byte(api):
    body = b'{"model": "claude-haiku-5-5",  "max_tokens": 5, "messages": [{"role": "user", "content": "\xc3\xa4"}]}'
    httpx.post(f"{api.url}/v1/messages", content=body, headers={"x-api-key": "any", "X-Odd": "1"})
    (request,) = api.requests
    assert request.body == body
    assert request.raw.startswith(b"POST /v1/messages HTTP/1.1\r\n")
    assert b"X-Odd: 1\r\n" in request.raw
    assert request.raw.endswith(b"\r\n\r\n" + body)


def test_a_function_answers_where_no_script_does(api, client):
    api.script(says("first"), lambda request: says(request.content.upper()))
    api.respond = lambda request: says("always") if request.model == "claude-haiku-5-5" else None
    assert [client.messages.create(**BODY).content[0].text for _ in range(3)] == ["first", "WELL?", "always"]


def test_another_process_switches_an_outage_and_reads_what_was_asked(api, client):
    def control(name: str, body: object = None) -> object:
        return httpx.post(f"{api.url}/_control/{name}", json=body).json()

    control("outage", {"status": 529})
    with pytest.raises(anthropic.OverloadedError):
        client.messages.create(**BODY)
    control("outage", {"status": 0})
    control("script", [{"answer": "scripted from afar"}, {"status": 429, "retry_after": 3}])
    assert client.messages.create(**BODY).content[0].text == "scripted from afar"
    with pytest.raises(anthropic.RateLimitError):
        client.messages.create(**BODY)
    assert [json.loads(one["body"])["model"] for one in control("requests")] == ["claude-haiku-5-5"] * 3
    control("reset", {})
    assert api.requests == []


def test_two_hundred_slow_requests_at_once(api):
    api.respond = lambda _request: says("x", delay=100, until=lambda: api.most_in_flight >= 200)

    async def all_of_them() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=120, headers={"x-api-key": "any"}) as one:
            await asyncio.gather(*(one.post(f"{api.url}/v1/messages", json=BODY) for _ in range(200)))

    asyncio.run(all_of_them())
    assert api.most_in_flight == 200


def test_scripts_are_json(tmp_path):
    assert from_json({"answer": {"valid": True}, "delay": 2}) == says({"valid": True}, delay=2)
    assert from_json({"status": 429, "retry_after": 1}).headers == {"retry-after": "1"}
    assert from_json({"raw": "<html>", "content_type": "text/html"}).raw == b"<html>"
    assert from_json({"cut": "body"}).cut == "body"


def test_it_runs_as_a_command(tmp_path, closed_port):
    script = tmp_path / "script.json"
    script.write_text('[{"answer": "from the script"}]')
    command = [sys.executable, "-m", "tests.messages_api", "--port", str(closed_port), "--script", str(script)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == f"ANTHROPIC_BASE_URL=http://127.0.0.1:{closed_port} ANTHROPIC_API_KEY=any\n"
        answer = httpx.post(f"http://127.0.0.1:{closed_port}/v1/messages", json=BODY, headers={"x-api-key": "any"})
        assert answer.json()["content"][0]["text"] == "from the script"
    finally:
        process.terminate()
        process.communicate(timeout=60)
