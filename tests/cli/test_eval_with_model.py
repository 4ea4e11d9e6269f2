"""Tests of `handoffaudit eval --with-model`, with the real SDK against a local server."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handoffaudit.cli import Stop
from handoffaudit.cli.eval_answers import DEFAULT_NAME, AnswerFile, caller_from_environment
from handoffaudit.cli.eval_run import Plan, PlannedItem, Run, make_plan, planned_items
from handoffaudit.evaluation.items import KINDS
from handoffaudit.evaluation.judge import LLMJudge
from handoffaudit.llm.calls import Caller
from handoffaudit.llm.service import FAST
from handoffaudit.validation.prompts.question import Role, Use
from tests import warm
from tests.cli.test_eval import written
from tests.evaluation.support import grounded
from tests.messages_api.requests import Request
from tests.messages_api.scripted import Scripted, fails, says
from tests.messages_api.server import MessagesServer, running

SOUND = [
    grounded(f"The order costs 240 EUR, says number {number}.", hallucinated=False, spans=[]) for number in range(6)
]
FAULTY = [
    grounded(f"The order costs 999 EUR, says number {number}.", hallucinated=True, spans=[(16, 19)])
    for number in range(4)
]


@pytest.fixture
def server() -> Iterator[MessagesServer]:
    with running() as server:
        server.respond = careful
        yield server


def careful(request: Request) -> Scripted:
    """Report a fabricated value where the question contains 999, and no finding otherwise."""
    assert request.use is Use.GROUNDING
    if "999" not in request.content:
        return says({"valid": True, "issues": []})
    doubt = {"field": "response", "kind": "fabricated", "quote": "999", "reason": "It is 240."}
    return says({"valid": False, "issues": [doubt]})


def environment(server: MessagesServer | None, **more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC", "HANDOFFAUDIT_M"))}
    asked = {"ANTHROPIC_API_KEY": "sk-ant-local-tests", "ANTHROPIC_BASE_URL": server.url} if server else {}
    return {**plain, **asked, "HANDOFFAUDIT_MODEL_TRIES": "1", **more}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "handoffaudit", "eval", *arguments, "--with-model"]


def run(
    server: MessagesServer | None, folder: Path, *arguments: str, **more: str
) -> "subprocess.CompletedProcess[str]":
    env = environment(server, PYTHONPATH=str(Path(__file__).parents[2]), **more)
    return warm.run("eval", *arguments, "--with-model", cwd=folder, env=env)


def kept(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / DEFAULT_NAME).read_text().splitlines()]


def test_the_model_stands_beside_the_local_layer_on_the_same_items(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl.gz", *SOUND, *FAULTY)
    done = run(server, tmp_path, path, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    [file] = shown["files"]
    model = file["model"]
    assert (model["items"], model["recall"], model["balanced_accuracy"], model["span_f1"]) == (10, 1.0, 1.0, 1.0)
    assert model["codes"] == {"semantic.fabricated": {"faulty": 4}}
    assert file["local"]["items"] == 10
    assert "grounding.number" in file["local"]["codes"]
    assert (shown["complete"], shown["calls"], shown["model"]) == (True, 10, "claude-haiku-5-5")
    assert shown["spent_usd"] == pytest.approx(sum(line["cost_usd"] for line in kept(tmp_path)))
    assert 0 < file["latency_ms"]["p50"] <= file["latency_ms"]["p99"]
    assert "10 items for claude-haiku-5-5: 0 have their answer in" in done.stderr
    assert "10 questions to ask, at most about 0.0" in done.stderr


def test_labels_are_not_sent(tmp_path: Path, server: MessagesServer) -> None:
    run(server, tmp_path, written(tmp_path / "one.jsonl", *FAULTY), "--yes")
    assert server.requests
    for request in server.requests:
        assert "hallucinated" not in request.body.decode()
        assert "spans" not in request.body.decode()


def test_what_was_answered_is_not_asked_again(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl", *SOUND, SOUND[0])
    run(server, tmp_path, path, "--yes")
    assert len(server.requests) == 6
    # nothing to pay, nothing to agree to
    done = run(server, tmp_path, path, "--json")
    assert len(server.requests) == 6
    shown = json.loads(done.stdout)
    assert (shown["calls"], shown["spent_usd"], shown["files"][0]["answered_before"]) == (0, 0, 7)
    assert shown["files"][0]["model"]["items"] == 7
    # another model is another question
    run(server, tmp_path, path, "--yes", HANDOFFAUDIT_MODEL_FAST="claude-sonnet-5-5")
    assert len(server.requests) == 12
    assert {line["model"] for line in kept(tmp_path)} == {"claude-haiku-5-5", "claude-sonnet-5-5"}


@pytest.mark.nightly
def test_another_prompt_is_another_question(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl", SOUND[0])
    run(server, tmp_path, path, "--yes")
    prompts = tmp_path / "prompts.json"
    row = {"use": "grounding", "text": "Is it so?"}
    prompts.write_text(json.dumps({"version": 3, "rows": [row]}))
    done = run(server, tmp_path, path, "--yes", "--policy", str(prompts))
    assert done.returncode == 0, done.stderr
    assert server.requests[-1].system.startswith("Is it so?")
    assert len({(line["prompt"], line["input"]) for line in kept(tmp_path)}) == 2


@pytest.mark.nightly
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, server: MessagesServer) -> None:
    slow = [grounded(f"The order costs 240 EUR, says {number}.", hallucinated=False, spans=[]) for number in range(40)]
    path = written(tmp_path / "one.jsonl", *slow)
    server.respond = lambda request: says({"valid": True, "issues": []}, delay=0.2)
    process = subprocess.Popen(
        command(path, "--yes", "--concurrency", "2"),
        cwd=tmp_path,
        env=environment(server, PYTHONPATH=str(Path(__file__).parents[2])),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    results = tmp_path / DEFAULT_NAME
    until = time.monotonic() + 120
    while time.monotonic() < until and not (results.exists() and results.read_bytes().count(b"\n") >= 5):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    answered = kept(tmp_path)
    assert 5 <= len(answered) < 40
    # as if it had been killed while it wrote
    results.write_bytes(results.read_bytes() + b'{"model": "claude-haiku-5-5", "prom')
    server.requests.clear()
    server.respond = careful
    done = run(server, tmp_path, path, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 40 - len(answered)
    [file] = json.loads(done.stdout)["files"]
    assert (file["answered_before"], file["model"]["items"], file["unanswered"]) == (len(answered), 40, 0)
    contents = [request.content for request in server.requests]
    assert len(set(contents)) == len(contents)


def test_an_interrupt_waits_for_what_is_paid_and_prints_what_there_is(tmp_path: Path, server: MessagesServer) -> None:
    slow = [grounded(f"The order costs 240 EUR, says {number}.", hallucinated=False, spans=[]) for number in range(60)]
    path = written(tmp_path / "one.jsonl", *slow)
    server.respond = lambda request: says({"valid": True, "issues": []}, delay=0.3)
    process = subprocess.Popen(
        command(path, "--yes", "--concurrency", "3", "--json"),
        cwd=tmp_path,
        env=environment(server, PYTHONPATH=str(Path(__file__).parents[2])),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while time.monotonic() < until and len(server.requests) < 6:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    shown = json.loads(output)
    [file] = shown["files"]
    asked = len(server.requests)
    assert 6 <= asked < 60
    assert (shown["stopped"], shown["complete"], shown["calls"]) == ("interrupted", False, asked)
    assert (file["model"]["items"], file["unanswered"]) == (asked, 60 - asked)
    assert len(kept(tmp_path)) == asked
    assert "The same command continues from here" in errors
    assert "Traceback" not in errors


@pytest.mark.nightly
def test_a_second_interrupt_does_not_wait(tmp_path: Path, server: MessagesServer) -> None:
    server.respond = lambda request: says({"valid": True, "issues": []}, delay=300)
    process = subprocess.Popen(
        command(written(tmp_path / "one.jsonl", *SOUND), "--yes", "--concurrency", "3", "--json"),
        cwd=tmp_path,
        env=environment(server, PYTHONPATH=str(Path(__file__).parents[2])),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    until = time.monotonic() + 120
    while time.monotonic() < until and len(server.requests) < 3:
        time.sleep(0.05)
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        # two that come before it saw the first would be one
        time.sleep(2)
    output, _ = process.communicate(timeout=100)
    shown = json.loads(output)
    assert shown["stopped"] == "interrupted; 3 calls under way, which may cost something, had no answer yet"
    assert shown["files"][0]["unanswered"] == 6


@pytest.mark.nightly
def test_an_outage_ends_it_with_what_there_is(tmp_path: Path, server: MessagesServer) -> None:
    many = [grounded(f"The order costs 240 EUR, says {number}.", hallucinated=False, spans=[]) for number in range(40)]
    path = written(tmp_path / "one.jsonl", *many)
    first = says({"valid": True, "issues": []})
    server.script(first, first, first)
    server.respond = lambda request: fails(529)
    done = run(server, tmp_path, path, "--yes", "--json", "--concurrency", "2")
    assert done.returncode == 1
    shown = json.loads(done.stdout)
    [file] = shown["files"]
    assert (file["model"]["items"], file["unanswered"]) == (3, 37)
    assert file["failures"] == {"overloaded": len(server.requests) - 3}
    assert len(server.requests) <= 3 + 5 + 2
    assert "the LLM can't be asked: The LLM service is overloaded (529)" in done.stderr
    server.respond = careful
    again = json.loads(run(server, tmp_path, path, "--yes", "--json").stdout)
    assert (again["complete"], again["files"][0]["answered_before"], again["calls"]) == (True, 3, 37)


def test_a_key_that_is_refused_is_said_once(tmp_path: Path, server: MessagesServer) -> None:
    server.outage = 401
    done = run(server, tmp_path, written(tmp_path / "one.jsonl", *SOUND), "--yes", "--concurrency", "1")
    assert (done.returncode, len(server.requests)) == (1, 1)
    assert "(401)" in done.stderr
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_single_failures_are_counted_and_not_scored(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl", *SOUND, *FAULTY)
    server.respond = lambda request: says("no JSON") if "number 1." in request.content else careful(request)
    done = run(server, tmp_path, path, "--yes", "--json")
    assert done.returncode == 0
    [file] = json.loads(done.stdout)["files"]
    assert (file["model"]["items"], file["local"]["items"], file["unanswered"]) == (8, 8, 2)
    assert file["failures"] == {"malformed_answer": 2}
    table = run(server, tmp_path, path, "--yes").stdout
    assert "2 without an answer, not counted (failed calls: 2 malformed_answer)" in table


@pytest.mark.nightly
def test_a_limit_takes_the_same_items_again_and_more(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl", *SOUND, *FAULTY)
    run(server, tmp_path, path, "--yes", "--limit", "3")
    assert len(server.requests) == 3
    done = run(server, tmp_path, path, "--yes", "--limit", "5", "--json")
    assert len(server.requests) == 5
    [file] = json.loads(done.stdout)["files"]
    assert (file["answered_before"], file["model"]["items"]) == (3, 5)


def test_no_more_is_spent_than_allowed(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl", *SOUND, *FAULTY)
    dear = {"usage": {"input_tokens": 1000, "output_tokens": 4000}}
    server.respond = lambda request: says({"valid": True, "issues": []}, **dear)
    done = run(server, tmp_path, path, "--yes", "--json", "--max-usd", "0.012", "--concurrency", "4")
    shown = json.loads(done.stdout)
    assert done.returncode == 1
    assert 0 < shown["spent_usd"] <= 0.012
    assert 0 < shown["calls"] < 10
    assert "--max-usd 0.012" in shown["stopped"]


def test_the_plan_has_the_cost_of_a_second_answer(tmp_path: Path) -> None:
    path = written(tmp_path / "one.jsonl", SOUND[0])
    client: Any = None
    caller = Caller(client, dict.fromkeys(Role, FAST))
    judge = LLMJudge(now=lambda: datetime.now(UTC))
    with AnswerFile(tmp_path / DEFAULT_NAME) as results:
        planned = make_plan([path], KINDS, judge, caller, results, None)
    [item] = planned_items(path, KINDS, judge)
    assert isinstance(item, PlannedItem)
    assert item.question is not None
    assert planned.most_usd == 2 * caller.estimate(item.question)


def test_what_it_costs_is_agreed_to_first(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl", *SOUND)
    done = run(server, tmp_path, path)
    assert (done.returncode, done.stdout, server.requests) == (2, "", [])
    assert "Confirm with --yes" in done.stderr


@pytest.mark.parametrize(("typed", "asked", "code"), [("y", 6, 0), ("n", 0, 1)])
def test_at_a_terminal_it_asks(tmp_path: Path, server: MessagesServer, typed: str, asked: int, code: int) -> None:
    path = written(tmp_path / "one.jsonl", *SOUND)
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        command(path),
        cwd=tmp_path,
        env=environment(server, PYTHONPATH=str(Path(__file__).parents[2])),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(ours, f"{typed}\n".encode())
    _, errors = process.communicate(timeout=300)
    os.close(ours)
    os.close(theirs)
    assert (process.returncode, len(server.requests)) == (code, asked)
    assert "Ask them?" in errors


def test_without_a_key_it_says_so(tmp_path: Path) -> None:
    done = run(None, tmp_path, written(tmp_path / "one.jsonl", *SOUND), "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: --with-model needs your key: set ANTHROPIC_API_KEY. Without --with-model, no LLM is asked.\n"
    )
    assert not (tmp_path / DEFAULT_NAME).exists()


def test_a_wrong_call_costs_nothing(tmp_path: Path, server: MessagesServer) -> None:
    good = written(tmp_path / "one.jsonl", *SOUND)
    other = written(tmp_path / "other.jsonl", {"a": 1})
    for arguments, said in (
        ((good, other, "--yes"), "other.jsonl holds no labelled data of a known kind: line 1 is not"),
        (("-", "--yes"), "give a file and not -"),
        ((good, "--yes", "--layers", "taste"), "There is no layer 'taste'"),
        ((good, "--yes", "--results", str(tmp_path)), "can't be written"),
        ((good, "--yes", "--results", "/dev/full"), "/dev/full is not a plain file"),
    ):
        done = run(server, tmp_path, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr
    assert server.requests == []


@pytest.mark.nightly
def test_two_runs_do_not_share_a_file_of_answers(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl", *SOUND)
    server.respond = lambda request: says({"valid": True, "issues": []}, delay=3)
    first = subprocess.Popen(
        command(path, "--yes"),
        cwd=tmp_path,
        env=environment(server, PYTHONPATH=str(Path(__file__).parents[2])),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while time.monotonic() < until and not server.requests:
        time.sleep(0.05)
    second = run(server, tmp_path, path, "--yes")
    first.kill()
    first.wait()
    assert second.returncode == 2
    assert "is in use by another run" in second.stderr


@pytest.mark.nightly
def test_a_full_disk_ends_it_at_once(tmp_path: Path, server: MessagesServer) -> None:
    path = written(tmp_path / "one.jsonl", *SOUND)
    shell = f"ulimit -f 1; exec {' '.join(command(path, '--yes', '--concurrency', '1'))}"
    (tmp_path / DEFAULT_NAME).write_bytes(b"\n" * 900)
    done = subprocess.run(
        ["bash", "-c", shell],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(server, PYTHONPATH=str(Path(__file__).parents[2]), PYTHONDONTWRITEBYTECODE="1"),
        stdin=subprocess.DEVNULL,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Error: {DEFAULT_NAME} can't be written (File too large)" in done.stderr
    assert len(server.requests) <= 2


def test_a_full_disk_at_the_end_of_a_half_line_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / DEFAULT_NAME
    path.write_bytes(b'{"model": "claude-')
    refused = pytest.raises(Stop, match=r"can't be written \(No space left on device\): make room")
    with monkeypatch.context() as patch, refused:
        patch.setattr(os, "write", fail)
        AnswerFile(path)


def test_the_table_names_the_model_and_what_it_cost(tmp_path: Path, server: MessagesServer) -> None:
    done = run(server, tmp_path, written(tmp_path / "one.jsonl", *SOUND, *FAULTY), "--yes", "--show", "1")
    assert done.returncode == 0, done.stderr
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert ["grounding", "10"] in rows
    assert ["claude-haiku-5-5", "10"] in rows
    assert "  semantic.fabricated: 4 faulty" in done.stdout
    assert "10 answers, 0 of them from before, 0.0" in done.stdout
    assert "10 calls in this run" in done.stdout


def test_it_loads_no_framework() -> None:
    look = (
        "import sys; from handoffaudit.cli import eval_report, eval_run; "
        "print([name for name in ('django', 'anthropic', 'celery') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_the_model_is_the_one_that_the_product_asks(settings) -> None:
    assert settings.MODEL_FAST == FAST


def test_the_settings_of_the_llm_are_whole_numbers() -> None:
    environment = {"ANTHROPIC_API_KEY": "x", "HANDOFFAUDIT_MODEL_TRIES": "1.5"}
    with pytest.raises(Stop, match=r"HANDOFFAUDIT_MODEL_TRIES is '1\.5': set it to a whole number"):
        caller_from_environment(None, environment)


def test_the_progress_counts_calls_beyond_the_plan() -> None:
    nothing: Any = None
    crew: Any = SimpleNamespace(under_way=1)
    measured = Run(nothing, crew, nothing, nothing, nothing, Plan(KINDS), calls=2)
    assert measured._describe_progress().startswith("asked 2 of 3 · ")
