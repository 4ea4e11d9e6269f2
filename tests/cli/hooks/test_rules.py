"""Tests of each type of rule and its limits."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handoffaudit.cli import Stop, hook_rules
from handoffaudit.cli.hook_rules import KEPT_BYTES, evaluate, load_rules, run_command
from handoffaudit.validation.phase_rules import LONGEST_TEXT, parse_results, parse_rules
from tests.running.conftest import alive, wait_for


def found(folder, kind, **config):
    rules = parse_rules([{"rule_id": "one", "rule_type": kind, "rule_config": config}])
    (result,) = evaluate(rules, folder)
    assert parse_results([result.as_plain()]) == (result,)
    return result


def test_a_file_is_there_or_not(tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "folder").mkdir()
    assert found(tmp_path, "file_exists", file_path="a.txt").status == "passed"
    assert found(tmp_path, "file_exists", file_path=str(tmp_path / "a.txt")).status == "passed"
    assert found(tmp_path, "file_exists", file_path="b.txt").message == "b.txt is not there."
    assert found(tmp_path, "file_exists", file_path="folder").message == "folder is not a file."


@pytest.mark.parametrize("kind", [{"kind": "file_exists"}, {"kind": "content_match", "patterns": ["a"]}])
def test_a_path_with_half_a_surrogate_pair_fails_only_its_rule(tmp_path, kind):
    failed = found(tmp_path, file_path="a\ud800.md", **kind)
    assert failed.status == "failed"
    assert "(the path is not Unicode text)" in failed.message


def test_every_pattern_must_be_found(tmp_path):
    (tmp_path / "a.md").write_text("# Report\n\n## Sources\nhttps://example.com\n")
    match = {"file_path": "a.md"}
    assert found(tmp_path, "content_match", patterns=["^## Sources$", "https?://"], **match).status == "passed"
    missing = found(tmp_path, "content_match", patterns=["^## Sources$", "ftp://", "Annex"], **match)
    assert (missing.status, missing.message) == ("failed", "a.md has nothing that matches ftp://, Annex.")
    broken = found(tmp_path, "content_match", patterns=["(a"], **match)
    assert broken.status == "failed"
    assert "A pattern is not a regular expression (missing )" in broken.message


def test_a_file_that_is_missing_a_folder_or_a_pipe_fails_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("none", ".", "pipe"):
        assert found(tmp_path, "content_match", file_path=name, patterns=["x"]).status == "failed"


def test_of_a_long_file_the_beginning_is_read_and_said(tmp_path):
    (tmp_path / "long").write_text("begin" + "x" * 2 * hook_rules.READ_BYTES + "end")
    assert found(tmp_path, "content_match", file_path="long", patterns=["begin"]).status == "passed"
    missed = found(tmp_path, "content_match", file_path="long", patterns=["end"])
    assert missed.message == "long has nothing that matches end. Only its first 1 MiB were read."


def test_a_pattern_that_would_never_end_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(hook_rules, "MATCHING_SECONDS", 0.3)
    (tmp_path / "a").write_text("a" * 60 + "b")
    began = time.monotonic()
    assert found(tmp_path, "content_match", file_path="a", patterns=["(a+)+$"]).status == "failed"
    assert time.monotonic() - began < 60


def test_a_command_passes_with_the_code_it_is_expected_to_end_with(tmp_path):
    assert found(tmp_path, "test_pass", test_command="true && true").status == "passed"
    assert found(tmp_path, "test_pass", test_command="exit 3", expected_exit_code=3).status == "passed"
    failed = found(tmp_path, "test_pass", test_command="echo two failed; exit 2")
    assert failed.message == "echo two failed; exit 2: it ended with 2, not with 0. Its output ends: two failed"
    assert failed.details == {"exit_code": 2, "expected_exit_code": 0, "output": "two failed"}


def test_a_script_gets_its_arguments_and_no_shell(tmp_path):
    script = tmp_path / "check.sh"
    script.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > seen\n')
    assert "it can't be started" in found(tmp_path, "custom", script_path="check.sh").message
    script.chmod(0o700)
    assert found(tmp_path, "custom", script_path="check.sh", args=["a b", "$HOME;"]).status == "passed"
    assert (tmp_path / "seen").read_text() == "a b\n$HOME;\n"


def test_secrets_in_the_output_are_masked(tmp_path):
    result = found(tmp_path, "test_pass", test_command="echo key sk-ant-api03-x7Kq29LmPz4RtV8w; exit 1")
    assert "x7Kq29" not in result.details["output"]
    assert "[masked]" in result.details["output"]


def test_time_up_ends_the_command_and_all_that_it_started(tmp_path):
    began = time.monotonic()
    result = found(tmp_path, "test_pass", test_command="sleep 300 & echo $! > child; sleep 300", timeout_seconds=1)
    assert time.monotonic() - began < 60
    assert "it did not end within 1 s" in result.message
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: not alive(child))


@pytest.mark.parametrize("redirected", ["", "> /dev/null 2>&1"])
def test_what_a_command_leaves_running_keeps_nobody(tmp_path, redirected):
    began = time.monotonic()
    ran = run_command(["/bin/sh", "-c", f"sleep 300 {redirected} & echo $! > child; echo done"], tmp_path, 200)
    assert time.monotonic() - began < 60
    assert (ran.code, ran.output) == (0, "done\n")
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: not alive(child))


def test_a_stop_while_a_command_starts_ends_the_command(tmp_path, monkeypatch):
    started = []

    class Stopped(subprocess.Popen):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            started.append(self.pid)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Stopped)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with pytest.raises(SystemExit):
            run_command(["/bin/sh", "-c", "sleep 300"], tmp_path, 200)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not alive(*started)


def test_a_command_whose_processes_may_not_be_killed_has_its_result(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.killpg", refuse)
    assert run_command(["/bin/sh", "-c", "exit 4"], tmp_path, 200).code == 4


def test_of_the_output_the_end_is_kept(tmp_path):
    ran = run_command(["/bin/sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x; echo the end"], tmp_path, 200)
    assert len(ran.output) == KEPT_BYTES
    assert ran.output.endswith("xthe end\n")
    result = found(tmp_path, "test_pass", test_command="head -c 5000000 /dev/zero; exit 1")
    assert len(result.message) <= LONGEST_TEXT


def test_a_command_that_closes_its_output_is_waited_for(tmp_path):
    assert run_command(["/bin/sh", "-c", "exec >&- 2>&-; sleep 0.3; exit 4"], tmp_path, 200).code == 4


def test_a_command_that_ends_by_a_signal_fails(tmp_path):
    assert found(tmp_path, "test_pass", test_command="kill -9 $$").details["exit_code"] == -9


def test_a_folder_as_the_rules_file_is_refused(tmp_path):
    with pytest.raises(Stop, match="is not a file") as stopped:
        load_rules(tmp_path, 3)
    assert stopped.value.code == 3


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux has a file that opens and can't be read")
def test_a_rules_file_that_opens_and_cannot_be_read_is_told():
    with pytest.raises(Stop, match=r"can't be read \(Input/output error\)"):
        load_rules(Path("/proc/self/mem"), 2)


@pytest.mark.parametrize("path", ["a" * 300, "~no-such-user/a.txt"])
def test_a_path_that_cannot_be_looked_up_fails_its_rule_only(path, tmp_path):
    assert found(tmp_path, "file_exists", file_path=path).status == "failed"
    assert found(tmp_path, "content_match", file_path=path, patterns=["a"]).status == "failed"
    assert found(tmp_path, "custom", script_path=path).status == "failed"
