"""Tests of phase rules: the valid settings, and the outcome of their results."""

import pytest

from handoffaudit.validation.errors import InvalidConfigError
from handoffaudit.validation.phase_rules import Overall, RuleType, overall, parse_results, parse_rules

TIME = "2026-11-21T12:00:00Z"


def rule(name, severity="error", **config):
    return {
        "rule_id": name,
        "rule_type": "file_exists",
        "rule_config": {"file_path": "a.txt"} | config,
        "severity": severity,
    }


def result(name, status, number=0):
    return {"result_id": f"{name}-{status}-{number}", "rule_id": name, "validated_at": TIME, "status": status}


def judged(rules, results):
    return overall(parse_rules(rules), parse_results(results))


def test_each_type_has_its_fields_and_their_defaults():
    rules = parse_rules(
        [
            {"rule_id": "a", "rule_type": "file_exists", "rule_config": {"file_path": "a.txt"}},
            {"rule_id": "b", "rule_type": "content_match", "rule_config": {"file_path": "a", "patterns": ["x"]}},
            {"rule_id": "c", "rule_type": "test_pass", "rule_config": {"test_command": "make test"}},
            {"rule_id": "d", "rule_type": "custom", "rule_config": {"script_path": "check.sh"}, "severity": "warning"},
        ]
    )
    assert [one.rule_type for one in rules] == list(RuleType)
    assert [one.severity for one in rules] == ["error", "error", "error", "warning"]
    assert rules[2].rule_config == {"test_command": "make test", "expected_exit_code": 0, "timeout_seconds": 60}
    assert rules[3].rule_config == {"script_path": "check.sh", "args": [], "timeout_seconds": 60}


def test_rules_and_results_are_read_as_they_were_written():
    rules = parse_rules([rule("a"), rule("b", "warning")])
    assert parse_rules([one.as_plain() for one in rules]) == rules
    results = parse_results([result("a", "passed") | {"message": "there", "details": {"size": 3}}])
    assert parse_results([one.as_plain() for one in results]) == results


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({}, "This is an object, not a list of rules. Give a list."),
        ([1], "[0]: This is a number. Give an object."),
        ([rule("a", extra=1)], '[0].rule_config.extra: "extra" is not a known field. Remove it; use only file_path.'),
        ([rule("a") | {"rule_typ": 1}], '[0].rule_typ: "rule_typ" is not a known field. Remove it: "rule_type" is'),
        ([{"rule_id": "a", "rule_typ": 1}], '[0].rule_typ: "rule_typ" is not a known field. Rename it to "rule_type".'),
        ([rule("a") | {"rule_type": "file_exist"}], '[0].rule_type: rule_type is "file_exist". Use file_exists.'),
        ([rule("a") | {"rule_type": []}], "[0].rule_type: rule_type is a list of 0 entries. Use one of"),
        ([rule("a") | {"rule_id": ""}], "[0].rule_id: rule_id is empty. Give the rule_id."),
        ([rule("a"), rule("a")], '[1].rule_id: Another rule has the id "a". Give each one a unique id.'),
        ([rule("a", file_path="a\0b")], "[0].rule_config.file_path: file_path contains a NUL character. Remove it."),
        ([rule("a") | {"rule_config": 3}], "[0].rule_config: rule_config is a number."),
        ([rule("a", "fatal")], '[0].severity: severity is "fatal". Use one of error or warning.'),
        ([rule(str(number)) for number in range(101)], "There are 101 rules, over the limit of 100. Leave some out."),
        (
            [{"rule_id": "t", "rule_type": "test_pass", "rule_config": {"test_command": "x", "timeout_seconds": 0}}],
            "[0].rule_config.timeout_seconds: timeout_seconds is 0. Give a whole number from 1 to 600.",
        ),
        (
            [{"rule_id": "t", "rule_type": "content_match", "rule_config": {"file_path": "x", "patterns": [""]}}],
            "[0].rule_config.patterns: patterns is empty or contains an empty string.",
        ),
    ],
)
def test_a_rule_that_cannot_be_set_is_told_with_its_place(plain, said):
    with pytest.raises(InvalidConfigError) as refused:
        parse_rules(plain)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ([result("a", "ok")], '[0].status: status is "ok". Use one of passed, failed or skipped.'),
        ([result("a", "passed") | {"details": [1]}], "[0].details: details is a list. Give an object."),
        ([result("a", "passed"), result("a", "passed")], '[1].result_id: Another result has the id "a-passed-0".'),
    ],
)
def test_a_result_that_cannot_be_read_is_told_with_its_place(plain, said):
    with pytest.raises(InvalidConfigError) as refused:
        parse_results(plain)
    assert str(refused.value).startswith(said)


def test_what_results_come_to():
    rules = [rule("a"), rule("b"), rule("w", "warning")]
    passed = [result(name, "passed") for name in "abw"]
    assert judged(rules, []) is Overall.PENDING
    assert judged(rules, passed[:1]) is Overall.IN_PROGRESS
    assert judged(rules, passed) is Overall.PASSED
    assert judged(rules, [*passed[:2], result("w", "failed")]) is Overall.PASSED
    assert judged(rules, [*passed[:2], result("w", "skipped")]) is Overall.PASSED
    assert judged(rules, [result("b", "failed")]) is Overall.FAILED
    assert judged([], []) is Overall.PASSED


def test_the_last_result_of_a_rule_counts_and_those_of_unknown_rules_do_not():
    assert judged([rule("a")], [result("a", "failed"), result("a", "passed")]) is Overall.PASSED
    assert judged([rule("a")], [result("a", "passed"), result("a", "failed")]) is Overall.FAILED
    assert judged([rule("a")], [result("other", "failed")]) is Overall.PENDING
