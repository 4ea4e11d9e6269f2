"""Tests of `python -m evals`."""

import json
from pathlib import Path

import pytest

from evals.__main__ import command
from handoffaudit.cli.eval import command as product_command
from tests import warm
from tests.cli.test_eval import LINES, written
from tests.cli.test_eval_with_model import careful, environment
from tests.cli.test_main import run as run_product
from tests.evals.support import chat
from tests.evaluation.support import reviewed
from tests.messages_api.server import running

ROOT = Path(__file__).parents[2]


def run(*arguments, env=None):
    return warm.run(*arguments, module="evals", cwd=ROOT, env=env)


def test_it_reads_all_that_the_product_reads(tmp_path):
    texts = written(tmp_path / "texts.jsonl", *LINES)
    reviews = written(tmp_path / "reviews.jsonl", reviewed("approved"), reviewed("declined"))
    shown = json.loads(run(texts, reviews, "--json").stdout)
    assert [file["kind"] for file in shown["files"]] == ["grounding", "reviews"]
    product = json.loads(run_product("eval", texts, reviews, "--json").stdout)
    for file in [*shown["files"], *product["files"]]:
        del file["ms_per_item"]
    assert shown == product


def test_it_has_the_options_of_the_product_and_two_more():
    of_product = {one.name for one in product_command.params}
    assert {one.name for one in command.params} == of_product | {"origin", "tool_results"}


def test_a_wrong_call_is_one_line_that_names_the_program(tmp_path):
    done = run()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: Missing argument 'FILE...'. See python -m evals --help.\n"
    done = run(written(tmp_path / "other.jsonl", {"a": 1}))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("of a known kind: line 1 is not labelled data of a known kind.\n")


@pytest.mark.parametrize("options", [(), ("--with-model", "--yes")], ids=["local", "model"])
def test_the_product_tells_what_reads_public_corpora(tmp_path, monkeypatch, options):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-local-tests")
    path = written(tmp_path / "chat.jsonl", chat(("asker", "Done?"), ("solver", "No."), mistake_step=1))
    done = run_product("eval", path, *options, "--results", str(tmp_path / "answers.jsonl"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.endswith(". `python -m evals` in a checkout of the source code reads public corpora.\n")


def test_an_llm_checks_a_group_chat(tmp_path):
    path = written(
        tmp_path / "chat.jsonl",
        chat(("asker", "What is it?"), ("solver", "999 EUR."), ("critic", "Fine."), mistake_step=1),
    )
    with running() as server:
        server.respond = careful
        done = run(
            path,
            "--with-model",
            "--yes",
            "--json",
            "--results",
            str(tmp_path / "answers.jsonl"),
            env=environment(server),
        )
    assert done.returncode == 0, done.stderr
    [file] = json.loads(done.stdout)["files"]
    assert (file["model"]["kind"], file["model"]["items"], file["local"]["items"]) == ("whowhen", 2, 2)


def test_other_layers_can_be_measured(tmp_path):
    stuck = chat(*[("asker", "Done?"), ("solver", "No.")] * 4, mistake_step=7)
    done = run(written(tmp_path / "chat.jsonl", stuck), "--layers", "chain")
    assert "on a route used before: 5, with the same data: 5" in done.stdout
    assert "chain.repeats_without_progress: 2 sound" in done.stdout


def test_a_policy_beside_the_data_is_read_and_no_other_file(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "policy.md").write_text("The fee is 555 EUR.")
    (tmp_path / "secret.md").write_text("The fee is 555 EUR.")
    turns = [
        {"step": 1, "agent": "user", "content": "What is the fee?"},
        {"step": 2, "agent": "assistant", "content": "The fee is 555 EUR."},
        {"step": 3, "agent": "user", "content": "Well."},
    ]
    found = []
    for policy in ("policy.md", "../secret.md"):
        line = {"trace_id": "run", "success": True, "policy": policy, "turns": turns}
        done = run(written(tmp_path / "data" / "tau.jsonl", line), "--json")
        found.append(json.loads(done.stdout)["files"][0]["codes"].get("grounding.number"))
    assert found == [None, {"sound": 1}]


def test_tool_results_ground_the_answers_that_rest_on_them(tmp_path):
    turns = [
        {"step": 1, "agent": "user", "content": "What is the price of W123?"},
        {"step": 2, "agent": "assistant", "tool_calls": [{"name": "get", "arguments": '{"id": "W123", "guess": 777}'}]},
        {"step": 3, "agent": "get", "role": "tool", "content": '{"id": "W123", "price": 555, "guess": 777}'},
        {"step": 4, "agent": "assistant", "content": "The price of W123 is 555 EUR."},
        {"step": 5, "agent": "user", "content": "And?"},
        {"step": 6, "agent": "assistant", "content": "The total price is 777 EUR."},
        {"step": 7, "agent": "user", "content": "Well."},
    ]
    path = written(tmp_path / "tau.jsonl", {"trace_id": "run", "success": True, "turns": turns})
    found = {}
    for given in ("none", "context", "evidence"):
        [shown] = json.loads(run(path, "--tool-results", given, "--json").stdout)["files"]
        found[given] = (shown["items"], shown["codes"].get("grounding.number"))
    assert found == {"none": (2, {"sound": 2}), "context": (2, None), "evidence": (2, {"sound": 1})}


def test_where_the_mistake_is_said_to_be_is_held_against_guesses(tmp_path):
    turns = [("asker", "What is it?"), ("solver", "It costs 999 EUR."), ("critic", "So 999 EUR."), ("asker", "Fine.")]
    path = written(tmp_path / "chats.jsonl", chat(*turns, mistake_step=1))
    shown = json.loads(run(path, "--origin", "--layers", "grounding", "--json").stdout)
    assert shown["files"][0]["origin"]["all"]["methods"]["suspects, ranked"]["exact"] == 1
    table = run(path, "--origin", "--layers", "grounding").stdout
    assert "1 failed trace, 3 handoffs; 1 with the mistake in a handoff" in table
    assert "random handoff, expected" in table


def test_data_without_traces_is_told(tmp_path):
    done = run(written(tmp_path / "one.jsonl", *LINES), "--origin", "--layers", "grounding")
    assert "contains no traces with a known mistake" in done.stdout
