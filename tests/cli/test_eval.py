"""Tests of `handoffaudit eval`."""

import gzip
import json

from tests.cli.test_main import run
from tests.evaluation.support import chat, grounded

KEYS = {"precision", "recall", "balanced_accuracy", "span_precision", "span_recall", "span_f1", "ms_per_item"}
LINES = [
    grounded("The order costs 240 EUR.", hallucinated=False, spans=[]),
    grounded("The order costs 999 EUR.", hallucinated=True, spans=[(16, 19)]),
    grounded("The order 4711 is about 240 EUR.", hallucinated=True, spans=[(0, 3)]),
]


def written(path, *lines):
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return str(path)


def test_every_file_has_its_own_figures(tmp_path):
    one = written(tmp_path / "one.jsonl.gz", *LINES)
    two = written(tmp_path / "two.jsonl", LINES[0])
    done = run("eval", one, two, "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    shown = json.loads(done.stdout)
    assert [figures["file"] for figures in shown["files"]] == [one, two]
    assert shown["files"][0].keys() >= KEYS
    assert shown["files"][0]["recall"] >= 0.5
    assert shown["files"][0]["span_f1"] > 0
    assert shown["files"][0]["ms_per_item"] > 0
    assert shown["files"][1]["recall"] is None


def test_the_table_names_each_file_and_its_codes(tmp_path):
    done = run("eval", written(tmp_path / "one.jsonl", *LINES))
    head, row, *codes = done.stdout.splitlines()
    assert head.split()[:5] == ["file", "items", "faulty", "sound", "flagged"]
    assert row.split()[:4] == ["one.jsonl", "3", "2", "1"]
    assert "  grounding.number: 1 faulty" in codes


def test_other_layers_can_be_measured(tmp_path):
    stuck = chat(*[("asker", "Done?"), ("solver", "No.")] * 4, mistake_step=7)
    done = run("eval", written(tmp_path / "chat.jsonl", stuck), "--layers", "chain")
    assert "the same way as before: 5, with the same data: 5" in done.stdout
    assert "chain.repeats_without_progress: 3 sound" in done.stdout


def test_what_was_judged_wrongly_is_shown_to_be_read(tmp_path):
    missed = grounded("The order costs 240 EUR.", hallucinated=True, spans=[(0, 3)])
    done = run("eval", written(tmp_path / "one.jsonl", missed), "--show", "1")
    assert "missed: one (one.jsonl)" in done.stdout
    assert "labelled: 'The'" in done.stdout


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
        done = run("eval", written(tmp_path / "data" / "tau.jsonl", line), "--json")
        found.append(json.loads(done.stdout)["files"][0]["codes"].get("grounding.number"))
    assert found == [None, {"sound": 1}]


def test_what_cannot_be_used_is_one_line(tmp_path):
    done = run("eval", written(tmp_path / "other.jsonl", {"a": 1}))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "other.jsonl holds no labelled data that is known here: line 1 is no" in done.stderr
    done = run("eval", written(tmp_path / "one.jsonl", LINES[0]), "--layers", "taste")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: There is no layer 'taste': choose from structure, ")


def test_a_damaged_file_is_one_line(tmp_path):
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(LINES[0]).encode() * 500)[:60])
    done = run("eval", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {path} is damaged (")
    assert "stored" not in done.stderr


def test_where_the_mistake_is_said_to_be_is_held_against_guesses(tmp_path):
    turns = [("asker", "What is it?"), ("solver", "It costs 999 EUR."), ("critic", "So 999 EUR."), ("asker", "Fine.")]
    path = written(tmp_path / "chats.jsonl", chat(*turns, mistake_step=1))
    shown = json.loads(run("eval", path, "--origin", "--layers", "grounding", "--json").stdout)
    assert shown["files"][0]["origin"]["all"]["methods"]["suspects, ranked"]["exact"] == 1
    table = run("eval", path, "--origin", "--layers", "grounding").stdout
    assert "1 failed trace, 3 handoffs; in 1 the mistake is in a handoff" in table
    assert "random handoff, expected" in table


def test_data_without_traces_is_told(tmp_path):
    done = run("eval", written(tmp_path / "one.jsonl", *LINES), "--origin", "--layers", "grounding")
    assert "holds no traces whose mistake is known" in done.stdout
