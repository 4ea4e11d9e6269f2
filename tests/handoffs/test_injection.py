"""Tests that texts of agents cannot instruct the LLM: the bytes that the real SDK sends of each attempt."""

import json
from collections.abc import Iterator

import pytest

from handoffaudit.llm.calls import Caller
from handoffaudit.llm.service import build_caller, build_client
from handoffaudit.validation.prompts.question import Use
from tests.messages_api.scripted import says
from tests.messages_api.server import MessagesServer, running
from tests.scale import NIGHTLY
from tests.validation.prompts.injections import ATTEMPTS, HARMLESS, PADDED, questions


@pytest.fixture(scope="module")
def server() -> Iterator[MessagesServer]:
    with running() as one:
        yield one


@pytest.fixture(scope="module")
def caller(server: MessagesServer) -> Caller:
    client = build_client("anthropic", "sk-of-the-tests", server.url)
    assert client is not None
    return build_caller(client, fast="claude-haiku-5-5", careful="claude-sonnet-5", tries=1)


# a place of each use, and those that a sender names things by
PLACES = ("data", "the name of a field", "context", "evidence", "objective", "deliverable", "output", "document")
ALL = [*ATTEMPTS, *PADDED]


@pytest.mark.parametrize("attempt", ALL, ids=lambda text: ascii(text)[:40])
def test_only_the_data_of_a_request_changes(attempt: str, server: MessagesServer, caller: Caller) -> None:
    attempts, harmless = questions(attempt), questions(HARMLESS)
    # By day each attempt is in one place; tests/validation/prompts/test_injection.py has it in every place.
    for place in PLACES if NIGHTLY else (PLACES[ALL.index(attempt) % len(PLACES)],):
        server.reset()
        # a document that is cut cannot come back: what is answered is not what is looked at here
        server.respond = lambda request: says("{}") if request.use is Use.REPAIR else None
        for question in (harmless[place], attempts[place]):
            call = caller.call(question)
            assert call.error is None, (place, call.error)
        usual, sent = (request.json for request in server.requests)
        assert sent["system"] == attempts[place].instructions == harmless[place].instructions
        assert sent["messages"] == [{"role": "user", "content": attempts[place].content}]
        assert {**sent, "messages": None} == {**usual, "messages": None}
        # the bytes are those of the usual request with this one text in the place of the other
        body = server.requests[1].body
        assert body.count(_as_sent(attempts[place].content)) == 1
        assert body.replace(_as_sent(attempts[place].content), b"#") == server.requests[0].body.replace(
            _as_sent(harmless[place].content), b"#"
        )


def _as_sent(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()
