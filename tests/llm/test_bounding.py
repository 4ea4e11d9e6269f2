"""Tests that an answer that would fill the memory is cut off, with the real SDK."""

import gzip
import json

import pytest

from handoffaudit.llm.claude import LONGEST_BODY
from handoffaudit.validation.prompts.question import Reason
from tests.llm.asked import VALID, question
from tests.messages_api.scripted import Scripted, says

BOMB = gzip.compress(b" " * 20 * LONGEST_BODY)
PACKED = {"content-encoding": "gzip"}


@pytest.mark.parametrize(
    "answer",
    [
        Scripted(raw=b" " * (LONGEST_BODY + 1)),
        Scripted(raw=BOMB, headers=PACKED),
        Scripted(raw=BOMB, headers=PACKED, status=400),
    ],
    ids=["long", "bomb", "bomb beside an error"],
)
def test_a_body_that_is_too_long_is_an_outage_that_says_so(api, caller_of, answer):
    api.script(answer, answer)
    call = caller_of(tries=2).call(question())
    assert (call.error.reason, call.tries) == (Reason.SERVER_ERROR, 2)
    assert call.error.detail.startswith("The LLM service sent more than 4 MiB")


def test_a_compressed_answer_is_read(api, caller_of):
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "usage": {}}
    content = [{"type": "text", "text": json.dumps(VALID)}]
    api.script(Scripted(raw=gzip.compress(json.dumps({**message, "content": content}).encode()), headers=PACKED))
    assert caller_of().call(question()).answer.value.valid is True


def test_the_next_call_is_answered(api, caller_of):
    api.script(Scripted(raw=BOMB, headers=PACKED), says(VALID))
    assert caller_of().call(question()).answer.value.valid is True
