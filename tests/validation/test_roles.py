"""Guesses of an agent's role from its name, its calls and the form of its handoffs."""

from typing import Any

import pytest

from handoffaudit.validation.agents import AgentRole, SourceRole, guess_role, looks_observed
from handoffaudit.validation.record import Record
from tests.validation.support import payload, record_of

PAGE = (
    "I clicked 'Results'.\n\nHere is a screenshot of [Results](https://example.org/results?q=1). The viewport shows 5% "
    "of the webpage.\nThe following text is visible:\n\nAltdorf 4,711 votes"
)
RUN = "exitcode: 0 (execution succeeded)\nCode output: 4711\n"
FAILED = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nKeyError: 4711\n'
FILE = "Address: file:///workspace/a.csv\nViewport position: Showing page 1 of 3.\n=====\nspecies,mass\nAdelie,3750"
RESULTS = "\n".join(f"Result {number}\nhttps://example.org/{number}\nWords of the page." for number in range(4))
LISTING = "total 12\n-rw-r--r--  1 ana ana 4711 Mar  3 10:01 a.csv\ndrwxr-xr-x  2 ana ana 4096 Mar  3 10:01 old\n"
GREP = "src/app.py:12: total = 4711\nsrc/app.py:40: total += 1\nsrc/main.py:3: import app"
ANSWER = "The script failed with exit code 1 after two minutes, see https://example.org. I suggest to fix line 12:\n\n"
CODE = "Run this:\n```\nexitcode: 0\n```"
JSON = '{"total": 4711, "unit": "votes"}'


def record(source: str, text: Any, **context: Any) -> Record:
    return record_of(payload(source_agent_id=source, call_chain=[source], data={"text": text}), context=context)


@pytest.mark.parametrize("text", [PAGE, RUN, FAILED, FILE, RESULTS, LISTING, GREP])
def test_the_output_of_a_program_has_a_form(text: str) -> None:
    assert looks_observed(record("surfer", text))


@pytest.mark.parametrize(
    "text", [CODE, JSON, "", "Buy milk.", "1. Milk\n2. Eggs\n3. Bread", "We read [a page](https://example.org/a).", 7]
)
def test_what_an_llm_writes_has_none(text: Any) -> None:
    assert not looks_observed(record("writer", text))


def roles_of(source: str, texts: list[str]) -> list[AgentRole]:
    behaviour, found = "", []
    for text in texts:
        role, behaviour = guess_role(record(source, text), behaviour)
        found.append(role.role)
    return found


def test_an_agent_that_mostly_writes_like_a_program_is_an_observer() -> None:
    worker, observer = AgentRole.WORKER, AgentRole.OBSERVER
    assert roles_of("surfer", [PAGE, RUN, ANSWER, FILE]) == [observer, observer, worker, observer]
    assert roles_of("coder", [ANSWER, RUN, RUN]) == [worker, worker, observer]


def test_an_answer_of_an_observer_is_the_work_of_a_worker() -> None:
    assert roles_of("surfer", [PAGE] * 5 + [ANSWER])[-1] is AgentRole.WORKER


def test_a_worker_that_writes_like_a_tool_now_and_then_stays_a_worker() -> None:
    assert set(roles_of("coder", [ANSWER, RUN, ANSWER, RUN, ANSWER, RUN, ANSWER, RUN])) == {AgentRole.WORKER}


@pytest.mark.parametrize(
    ("source", "role"),
    [("User-Proxy", AgentRole.PERSON), ("Code_Executor", AgentRole.OBSERVER), ("x", AgentRole.WORKER)],
)
def test_a_name_is_enough(source: str, role: AgentRole) -> None:
    assert guess_role(record(source, "Hello.")).role.role is role


def test_a_called_tool_is_an_observer() -> None:
    role = guess_role(record("search", "4711", calls=[{"name": "search", "arguments": {}}])).role
    assert (role.role, role.is_declared, role.is_guess) == (AgentRole.OBSERVER, False, True)


def test_only_declared_observers_bring_evidence() -> None:
    roles = [SourceRole(role, declared) for role in AgentRole for declared in (True, False)]
    assert {(one.role, one.is_declared) for one in roles if one.is_evidence} == {
        (AgentRole.OBSERVER, True),
        (AgentRole.PERSON, True),
    }


def test_hostile_texts_are_read_in_no_time() -> None:
    for text in ("exit code " * 50_000, "a" * 500_000, "\n" * 500_000, "[2024-01-01T10:00" * 30_000, "- " * 250_000):
        guess_role(record("x", text))
