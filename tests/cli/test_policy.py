"""Tests of `handoffaudit policy`: round trip, exit codes, lines of errors, commits."""

import json
import subprocess

import pytest

from handoffaudit.cli import Stop, import_receivers, policy_targets
from handoffaudit.cli import policy as policy_command
from handoffaudit.cli.policy_file import PolicyFile
from tests.running.conftest import prepared, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("policy") / "made")


@pytest.fixture
def exported(folder):
    done = run("policy", "export", folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def policy(folder, *arguments, text=None):
    return run("policy", *arguments, folder=folder, text=text)


def test_the_way_of_a_change(folder, exported, tmp_path):
    assert policy(folder, "diff", "-", text=exported).returncode == 0
    file = tmp_path / "policy.yaml"
    file.write_text(exported.replace("roles: []", "roles:\n  - agent: crawler\n    role: observer"))
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    git = ["git", "-C", tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "add", "policy.yaml"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "policy"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    for arguments in (["diff", str(file)], ["apply", str(file), "--dry-run"]):
        told = policy(folder, *arguments)
        assert (told.returncode, told.stdout) == (1, "roles: differs from version 0\n  + crawler\n")
    assert policy(folder, "apply", str(file)).stdout == "roles: saved as version 1\n  + crawler\n"
    again = policy(folder, "apply", str(file))
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "No difference.\n")
    file.write_text(exported)
    assert policy(folder, "apply", str(file), "--note", "no crawler", "--json").returncode == 0
    notes = run("manage", "shell", "--no-imports", "-c", NOTES, folder=folder).stdout.split("\n")
    assert notes[:2] == [f"commit {head}", f"commit {head} with uncommitted changes: no crawler"]
    refused = policy(
        folder,
        "apply",
        "-",
        "--base",
        "roles=1",
        text=exported.replace("roles: []", "roles: [{agent: a, role: worker}]"),
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "saved version 2 (commit" in refused.stderr
    assert "  - crawler" in refused.stderr
    assert json.loads(policy(folder, "export", "--json").stdout)["versions"]["roles"] == 2


NOTES = (
    "from handoffaudit.policy.models import PolicyVersion as P\nfor v in P.objects.order_by('number'): print(v.note)"
)


def test_errors_name_line_value_and_remedy(folder):
    text = """format: 1
policies:
  retention:
    - name: logs
      days: 0
  strictness:
    - handoff_type: deal_data
      token_budget: many
    - handoff_type: "*"
  rules:
    - set_id: desk
      name: Desk
      rules:
        - rule_id: a
          name: A
          rule_type: range
          field: x
          operator: nope
          threshold: 1
  nope: []
"""
    done = policy(folder, "diff", "-", text=text)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert [one.partition(": ")[0] for one in lines] == ["-, line 5", "-, line 8", "-, line 18", "-, line 20", "Error"]
    assert "(value: 0) Use a whole number from 1 to 3,650." in lines[0]
    assert "The kinds are strictness, rules" in lines[3]
    assert "4 errors. Nothing was saved." in lines[4]


@pytest.mark.parametrize(
    "arguments",
    [
        ["diff", "missing.yaml"],
        ["apply", "-", "--base", "x"],
        ["apply", "-", "--base", "rulse=1"],
        ["diff", "-", "--url", "http://x y", "--key", "k"],
        ["apply", "-", "--commit", "a\n"],
        ["diff", "/"],
    ],
)
def test_wrong_calls_end_with_2(folder, arguments):
    done = policy(folder, *arguments, text="format: 1\npolicies: {}\n")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_term_that_falls_below_six_months_is_a_warning(capsys):
    rows = [{"name": "logs", "days": 90}, {"name": "handoffs", "days": 183}, {"name": "documents", "days": 30}]
    changes = [{"row": name, "field": "days", "old": None, "new": 1} for name in ("logs", "handoffs")]
    read = PolicyFile({"retention": rows, "roles": []}, {})
    policy_command._warn_of_short_terms([{"kind": "roles", "changes": []}], read)
    assert capsys.readouterr().err == ""
    policy_command._warn_of_short_terms([{"kind": "retention", "changes": changes}], read)
    told = capsys.readouterr().err
    assert (told.count("\n"), told.startswith("  retention, logs: Less than six months (183 days): ")) == (1, True)


class Answers:
    """A connection to a server that always gives the same answer, or cannot be reached."""

    def __init__(self, status):
        self.status, self.headers = status, {}

    def request(self, *_sent):
        if self.status is None:
            raise ConnectionRefusedError(111, "Connection refused")

    def getresponse(self):
        return self

    def read(self):
        return b'{"title": "No"}'

    def close(self):
        pass


@pytest.mark.parametrize("status", [None, 401, 403, 404, 503])
def test_a_server_that_does_not_answer_is_no_difference(monkeypatch, status):
    """The exit code 1 of `policy diff` means that a policy differs, which a CI job may allow."""
    monkeypatch.setattr(import_receivers, "FIRST_PAUSE", 0.0)
    target = policy_targets.ServerTarget("http://127.0.0.1:9", "ha_key", "admin")
    target._connection = Answers(status)
    with pytest.raises(Stop) as stopped:
        target.put(policies={}, dry_run=True)
    assert stopped.value.code == 2


def test_what_a_sender_wrote_does_not_steer_the_terminal(capsys):
    one = {"handoff_id": "h\x1b[2J", "status": "failed", "differs": ["a\x07"], "fixes": ["b"], "notes": ["c\x9b"]}
    policy_command._show_results([one], as_json=False)
    assert capsys.readouterr().out == "h\ufffd[2J: failed\n  a\ufffd b\n  c\ufffd\n"
