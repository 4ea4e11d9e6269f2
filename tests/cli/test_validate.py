"""Tests of `handoffaudit validate`: files judged without a server."""

import gzip
import json
import subprocess
import sys

import click
import msgspec
import pytest

from handoffaudit.cli import Stop, local_verdicts
from handoffaudit.cli.local_verdicts import issue_lines, read_policy
from handoffaudit.validation.formats import BY_NAME
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.tokenizers import estimate
from tests import warm
from tests.cli.test_main import run
from tests.validation.support import judge, payload, universal


def fed(text, *arguments):
    return warm.run(*arguments, text=text)


def written(path, *documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return str(path)


REJECTED = payload(confidence=3)
HELD = payload(call_chain=["a", "b", "c", "d", "e", "f", "researcher"])


def test_exit_codes_follow_the_verdicts(tmp_path):
    assert run("validate", written(tmp_path / "good.json", payload())).returncode == 0
    assert run("validate", written(tmp_path / "bad.json", REJECTED)).returncode == 1
    held = run("validate", written(tmp_path / "held.json", HELD))
    assert (held.returncode, held.stdout.split()[0]) == (0, "held")
    missing = run("validate", str(tmp_path / "none.json"))
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.endswith("none.json can't be read (No such file or directory).\n")


@pytest.mark.parametrize("second", [payload(), REJECTED], ids=["accepted", "rejected"])
def test_all_files_are_judged_and_each_that_cannot_be_read_is_told(tmp_path, second):
    first, last = written(tmp_path / "a.json", payload()), written(tmp_path / "z.json", second)
    none, empty = str(tmp_path / "none.json"), tmp_path / "empty.jsonl"
    empty.write_text("")
    done = run("validate", first, none, str(empty), last)
    heads = [line.split()[1] for line in done.stdout.splitlines() if "score" in line]
    assert (done.returncode, heads) == (2, [first, last])
    assert done.stdout.splitlines()[-1].startswith("2 handoffs: ")
    assert [line.partition(".json")[2] for line in done.stderr.splitlines()] == [
        " can't be read (No such file or directory).",
        "l is empty.",
    ]
    shown = json.loads(run("validate", first, none, last, "--json").stdout)
    assert (shown["valid"], [item["file"] for item in shown["items"]]) == (False, [first, last])
    assert [message.startswith(none) for message in shown["unread"]] == [True]


def test_one_document_is_told_in_full(tmp_path):
    done = run("validate", written(tmp_path / "bad.json", REJECTED))
    head = f"rejected  {tmp_path}/bad.json · score 0.00 · payload research_result · researcher → writer"
    assert done.stdout.splitlines()[0] == head
    assert "error    structure.out_of_range  at confidence" in done.stdout
    assert "→ " in done.stdout
    assert "not run: tokens, chain, references" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("packed", [False, True])
def test_of_several_only_those_with_findings_are_told(tmp_path, packed):
    lines = "\n".join(json.dumps(one) for one in (payload(), REJECTED, HELD, payload()))
    path = tmp_path / "some.jsonl"
    path.write_bytes(gzip.compress(lines.encode()) if packed else lines.encode())
    done = run("validate", str(path))
    heads = [line for line in done.stdout.splitlines() if "score" in line]
    assert [head.split()[:2] for head in heads] == [["rejected", f"{path}:2"], ["held", f"{path}:3"]]
    assert done.stdout.splitlines()[-1] == "4 handoffs: 2 accepted, 1 rejected, 1 held"


def test_json_is_one_document(tmp_path):
    lines = "\n".join(json.dumps(one) for one in (payload(), REJECTED))
    done = fed(lines, "validate", "-", "--json")
    shown = json.loads(done.stdout)
    assert done.returncode == 1
    assert shown["valid"] is False
    assert shown["counts"] == {"accepted": 1, "rejected": 1, "held": 0}
    assert [(item["file"], item["number"], item["outcome"]) for item in shown["items"]] == [
        ("standard input", 1, "accepted"),
        ("standard input", 2, "rejected"),
    ]
    assert shown["items"][1]["issues"][0]["code"] == "structure.out_of_range"
    assert {layer["name"] for layer in shown["items"][0]["layers"]} >= {"structure", "tokens", "chain", "references"}


@pytest.mark.parametrize("text", ["[", "{", '{"a": 1,\n "b"', '[{"a": 1},\n', "", "nul", '{"a":1}}', "[" * 100_000])
def test_a_file_that_is_not_json_is_one_rejected_document(tmp_path, text):
    path = tmp_path / "broken.json"
    path.write_text(text)
    done = run("validate", str(path), "--json")
    (item,) = json.loads(done.stdout)["items"]
    assert (done.returncode, item["issues"][0]["code"]) == (1, "structure.json_parse")


def test_a_document_over_several_lines_and_an_array_of_them(tmp_path):
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps(payload(), indent=2))
    assert run("validate", str(path)).stdout.startswith("accepted")
    path.write_text(json.dumps([payload(), REJECTED], indent=2))
    assert run("validate", str(path)).stdout.splitlines()[-1] == "2 handoffs: 1 accepted, 1 rejected"


def test_a_submission_brings_what_stands_beside_the_document():
    stray = {"document": payload(), "context": {"page": "Nothing of the kind."}, "trace_id": "t"}
    found = json.loads(fed(json.dumps(stray), "validate", "-", "--json").stdout)["items"][0]
    assert "grounding.number" in {issue["code"] for issue in found["issues"]}
    typo = fed(json.dumps({"document": payload(), "contxt": {}}), "validate", "-")
    assert typo.returncode == 1
    assert 'Did you mean "context"?' in typo.stdout
    bare = fed(json.dumps({"handoff": {}}), "validate", "-", "--format", "payload")
    assert "source_agent_id" in bare.stdout


def test_a_count_of_the_indented_file_is_no_drift(tmp_path):
    path, document = tmp_path / "indented.json", universal()
    document["handoff"]["meta"]["token_count"] = round(estimate(json.dumps(document, indent=4)))
    path.write_text(json.dumps(document, indent=4))
    assert "count_drift" not in run("validate", str(path)).stdout
    path.write_text(json.dumps(document))
    assert "tokens.count_drift" in run("validate", str(path)).stdout


def test_files_are_looked_up_beside_the_document(tmp_path):
    (tmp_path / "there.md").write_text("x")
    paths = ["there.md", "gone.md", "x" * 5000]
    document = universal(payload={"references": {"files": [{"path": path} for path in paths]}})
    written(tmp_path / "handoff.json", document)
    found = json.loads(run("validate", str(tmp_path / "handoff.json"), "--json").stdout)["items"][0]["issues"]
    missing = [issue["field_path"] for issue in found if issue["code"] == "references.missing_file"]
    assert missing == ["handoff.payload.references.files[1].path", "handoff.payload.references.files[2].path"]
    (tmp_path / "sub").mkdir()
    found = json.loads(
        run("validate", str(tmp_path / "handoff.json"), "--json", "--root", str(tmp_path / "sub")).stdout
    )["items"][0]["issues"]
    assert sum(issue["code"] == "references.missing_file" for issue in found) == 3


def test_the_policy_can_be_given(tmp_path):
    rows = [{"handoff_type": "*", "token_budget": 5}, {"handoff_type": "research_result", "strictness": "lenient"}]
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"version": 7, "rows": rows}))
    text = json.dumps(payload(handoff_type="other"))
    found = json.loads(fed(text, "validate", "-", "--json", "--policy", str(policy)).stdout)["items"][0]
    assert (found["policy_version"], found["issues"][0]["code"]) == (7, "tokens.over_budget")
    lenient = json.loads(fed(json.dumps(payload()), "validate", "-", "--json", "--policy", str(policy)).stdout)
    assert lenient["items"][0]["strictness"] == "lenient"
    strict = fed(json.dumps(payload()), "validate", "-", "--json", "--policy", str(policy), "--type-policy", "strict")
    assert json.loads(strict.stdout)["items"][0]["strictness"] == "strict"
    policy.write_text(json.dumps({"rows": [{"handoff_type": "*", "token_budget": "many"}]}))
    wrong = fed(text, "validate", "-", "--policy", str(policy))
    assert wrong.returncode == 2
    assert "'many' is not a whole number" in wrong.stderr


def test_what_a_sender_wrote_does_not_steer_the_terminal():
    done = fed(json.dumps(payload(source_agent_id="\x1b[31mred\x07")), "validate", "-")
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout


def test_a_document_that_could_be_over_its_budget_is_counted():
    words = "unfathomable " * 200
    small, large, long = payload(), payload(data={"text": words}), payload(data={"text": words * 20})
    done = fed("\n".join(json.dumps(one) for one in (small, large, small, long)), "validate", "-")
    told = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("  error")]
    assert told == ["tokens.over_budget"]
    counts = json.loads(fed(json.dumps(long), "validate", "-", "--json").stdout)["items"][0]["token_counts"]
    assert f"is {counts['total']:,} tokens" in " ".join(done.stdout.split())


def test_an_output_is_counted_if_only_its_own_budget_is_small(tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"rows": [{"handoff_type": "*", "output_token_budget": 100}]}))
    output = {"parsed_output": {"_output_type": "Note", "text": "one two " * 20}, "envelope": {"agent_id": "writer"}}
    done = fed(json.dumps(output), "validate", "-", "--policy", str(policy))
    assert "writer" in done.stdout
    assert "tokens.over_budget" not in done.stdout


def test_a_policy_file_may_begin_with_a_byte_order_mark(tmp_path):
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"rows": [{"handoff_type": "*", "output_token_budget": 100}]}), "utf-8-sig")
    assert read_policy([str(policy)], None).other.output_token_budget == 100


def test_nothing_is_loaded_that_judging_needs_not(tmp_path):
    path = written(tmp_path / "good.json", payload())
    heavy = (
        "splintr",
        "django",
        "celery",
        "ninja",
        "handoffaudit.validation.repair",
        "handoffaudit.validation.library",
    )
    look = (
        "import sys; sys.argv = ['handoffaudit', 'validate', sys.argv[1]]\n"
        "from handoffaudit.cli.main import main\n"
        "try: main()\n"
        f"except SystemExit as end: print(end.code, [name for name in {heavy} if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", look, path], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "0 []"


def test_policies_are_read_as_the_api_answers_them(tmp_path):
    rule = {"rule_id": "median", "name": "Median", "rule_type": "required", "field": "median"}
    answers = {
        "rules": {"version": 1, "sets": [{"set_id": "s", "name": "S", "rules": [rule]}]},
        "schemas": {"version": 1, "rows": [{"handoff_type": "research_result", "schema": {"required": ["mean"]}}]},
    }
    for name, answer in answers.items():
        (tmp_path / name).write_text(json.dumps(answer))
    text = json.dumps(payload(handoff_type="research_result"))

    def codes(*names):
        given = [part for name in names for part in ("--policy", str(tmp_path / name))]
        (item,) = json.loads(fed(text, "validate", "-", "--json", *given).stdout)["items"]
        return [issue["code"] for issue in item["issues"] if issue["severity"] == "error"]

    assert codes("rules") == ["business_rule.required.median"]
    assert codes("rules", "schemas") == ["schema.required"]
    prompt = {"use": "grounding", "handoff_type": None, "workflow": None, "text": "Is it so?"}
    for rows in ([prompt], []):
        (tmp_path / "prompts").write_text(json.dumps({"version": 1, "rows": rows}))
        assert codes("prompts", "rules") == ["business_rule.required.median"]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"rules": []}, "neither"),
        ({"sets": [{"set_id": "s"}]}, "is not a policy"),
        ({"rows": [{"handoff_type": "a", "schema": {"type": "nonsense"}}]}, "is not a policy"),
        ({"rows": [{"use": "grounding", "text": ""}]}, "is not a policy"),
        ([], "is not a policy"),
    ],
)
def test_what_is_no_policy_is_told(tmp_path, policy, said):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(policy))
    refused = fed(json.dumps(payload()), "validate", "-", "--policy", str(path))
    assert refused.returncode == 2
    assert said in refused.stderr


def test_a_policy_with_a_key_that_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text('\ufeff{"rows": [],\n"rows": []}')
    with pytest.raises(Stop, match=r'Line 2: the key "rows" is there twice in one object\. Keep one of them\.$'):
        local_verdicts._load(str(path))


def test_a_format_that_is_not_read_is_a_wrong_call():
    refused = fed(json.dumps(payload()), "validate", "-", "--format", "paylod")
    assert refused.returncode == 2
    assert "paylod" in refused.stderr
    assert [name for name in BY_NAME if f"'{name}'" not in refused.stderr] == []


def test_equal_findings_are_told_once_with_their_places():
    said = ("Row 0 is not a number.", "Send a number.")
    findings = [Issue("schema", "schema.type", Severity.ERROR, *said, ("rows", number)) for number in range(44)]
    verdict = msgspec.structs.replace(
        judge(payload()), issues=(*findings, msgspec.structs.replace(findings[0], code="schema.minimum"))
    )
    lines = [" ".join(click.unstyle(line).split()) for line in issue_lines(verdict)]
    assert lines[:5] == [
        "error schema.type at rows[0]",
        "Row 0 is not a number.",
        "and 43 more at rows[1], rows[2], rows[3], rows[4], rows[5], …: --json shows all",
        "→ Send a number.",
        "error schema.minimum at rows[0]",
    ]
