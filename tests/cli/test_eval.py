"""Tests of `handoffaudit eval`."""

import gzip
import json

from tests.cli.test_main import run
from tests.evaluation.support import grounded

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


def test_what_was_judged_wrongly_is_shown_to_be_read(tmp_path):
    missed = grounded("The order costs 240 EUR.", hallucinated=True, spans=[(0, 3)])
    done = run("eval", written(tmp_path / "one.jsonl", missed), "--show", "1")
    assert "missed: one (one.jsonl)" in done.stdout
    assert "labelled: 'The'" in done.stdout


def test_what_cannot_be_used_is_one_line(tmp_path):
    done = run("eval", written(tmp_path / "other.jsonl", {"a": 1}))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "other.jsonl holds no labelled data of a known kind: line 1 is not" in done.stderr
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


def test_an_empty_file_is_not_called_wrong_json(tmp_path):
    empty = written(tmp_path / "empty")
    done = run("eval", empty)
    assert done.returncode == 2
    assert done.stderr.startswith(f"Error: {empty} holds no labelled data of a known kind. ")
