"""Tests of `handoffaudit repair`: a candidate on standard output, the changes on standard error."""

import json

from tests.cli.test_main import run
from tests.cli.test_validate import fed
from tests.validation.formats.documents import example
from tests.validation.support import payload, universal

LONG = universal(context={"summary": "word " * 140})


def test_the_candidate_is_valid_and_alone_on_standard_output():
    done = fed(json.dumps(LONG), "repair", "-")
    assert done.returncode == 0
    candidate = json.loads(done.stdout)
    assert len(candidate["handoff"]["context"]["summary"]) <= 500
    assert "repaired" in done.stderr
    assert "~ handoff.context.summary" in done.stderr
    assert fed(done.stdout, "validate", "-").returncode == 0


def test_a_sound_document_is_printed_as_it_is():
    done = fed(json.dumps(payload()), "repair", "-")
    assert (done.returncode, json.loads(done.stdout)) == (0, payload())
    assert done.stderr.startswith("not needed")


def test_integers_beyond_64_bits_keep_their_digits():
    amount = {"wei": 10**20 + 1}
    sound = fed(json.dumps(payload(data=amount)), "repair", "-")
    assert (sound.returncode, json.loads(sound.stdout)["data"]) == (0, amount)
    faulty = fed(json.dumps(payload(data=amount, confidence=1.5)), "repair", "-")
    assert (faulty.returncode, faulty.stdout) == (1, "")
    assert "an integer beyond 64 bits" in faulty.stderr


def test_what_cannot_be_repaired_exits_with_1():
    for text in ("{", '{"nothing": "known"}', json.dumps(payload(target_agent_id="researcher"))):
        done = fed(text, "repair", "-")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.split(" ")[0] in ("not", "escalated")


def test_a_compression_that_falls_short_says_what_each_step_saved():
    rows = [f"row {number}" for number in range(2000)]
    large = universal(expires_at="2027-01-01T00:00:00Z", payload={"working": {"rows": rows}})
    done = fed(json.dumps(large), "repair", "-")
    assert done.returncode == 1
    told = " ".join(done.stderr.split())
    assert "compression: Saved tokens: dropped handoff.expires_at (about" in told
    assert "over the budget of 2,000" in told


def test_json_says_all_of_it(tmp_path):
    path = tmp_path / "long.json"
    path.write_text(json.dumps(LONG))
    out = tmp_path / "out.json"
    done = run("repair", str(path), "--json", "--output", str(out))
    shown = json.loads(done.stdout)
    assert (done.returncode, shown["status"], done.stderr) == (0, "repaired", "")
    assert shown["attempts"][0]["changes"][0]["field_path"] == "handoff.context.summary"
    assert json.loads(out.read_text()) == shown["document"]
    assert json.loads(path.read_text()) == LONG


def test_the_envelope_counts_and_stays_behind():
    sent = {"document": LONG, "context": {"page": "x"}, "trace_id": "t"}
    done = fed(json.dumps(sent), "repair", "-")
    assert list(json.loads(done.stdout)) == ["handoff"]


def test_of_a_report_the_object_of_the_handoff_file_is_repaired():
    content = {"status": "complete", "artifacts": [], "next": "review", "summary": "Done. " * 3000}
    report = {"run_id": "r-1", "agent": "builder", "expected_path": "out.json"}
    done = fed(json.dumps({**report, "file": {"exists": True, "content": content}}), "repair", "-")
    assert done.returncode == 0
    candidate = json.loads(done.stdout)
    assert len(candidate.pop("summary")) < len(content.pop("summary"))
    assert candidate == content


def test_an_older_version_is_repaired_as_it_was_lifted():
    older = example("universal-2.0")
    older["handoff"]["context"]["original_prompt"] = "word " * 4000
    done = fed(json.dumps({"document": older, "adapt": True}), "repair", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["handoff"]["version"] == "3.0"
    assert "handoff.context.original_prompt" in done.stderr


def test_it_takes_one_document():
    done = fed("\n".join([json.dumps(payload())] * 2), "repair", "-")
    assert done.returncode == 2
    assert done.stderr == "Error: standard input holds more than one document: repair takes one.\n"
