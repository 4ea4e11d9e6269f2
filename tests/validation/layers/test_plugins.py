"""Tests of layers of users, wrapped and installed."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from handoffaudit.validation.layers import LAYERS
from handoffaudit.validation.layers.plugins import PluginError, installed_layers, layers_of, wrap
from handoffaudit.validation.library.models import ValidationIssue, ValidationSeverity
from tests.validation.support import judge, payload


class Length:
    """A layer that rejects texts of more than ten characters."""

    layer_name = "length"

    def __init__(self, code: str = "length.too_long") -> None:
        self.code = code

    def validate(self, parsed_output: dict[str, Any], envelope: Any, result: Any) -> list[ValidationIssue]:
        long = [name for name, value in parsed_output.items() if isinstance(value, str) and len(value) > 10]
        parsed_output.clear()
        return [
            ValidationIssue(
                layer="length",
                severity=ValidationSeverity.ERROR,
                code=self.code,
                message=f"{name} is too long, says {envelope.agent_id}.",
                field_path=name,
            )
            for name in long
        ]


class Returns:
    layer_name = "returns"

    def __init__(self, found: Any) -> None:
        self.found = found

    def validate(self, parsed_output: dict[str, Any], envelope: Any, result: Any) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


def test_a_validators_issue_is_one_of_the_verdict() -> None:
    document = payload()
    verdict = judge(document, layers=[*LAYERS, wrap(Length())])
    (issue,) = verdict.issues
    assert (issue.layer, issue.code, issue.field_path) == ("length", "length.too_long", "data.text")
    assert issue.message == "text is too long, says researcher."
    assert (verdict.outcome, verdict.layers[-1].status) == ("rejected", "failed")
    assert document["data"], "a validator was given the data itself, not a copy"


def test_a_shipped_code_does_not_hold_a_handoff() -> None:
    verdict = judge(payload(), layers=[wrap(Length("chain.needs_approval"))])
    assert [issue.code for issue in verdict.issues] == ["length.chain.needs_approval"]


@pytest.mark.parametrize("found", [ZeroDivisionError("oh"), [3], 3, [{"code": "a"}]])
def test_what_a_validator_breaks_is_no_pass(found: Any) -> None:
    verdict = judge(payload(), layers=[wrap(Returns(found))])
    assert verdict.layers[0].status == "error"
    assert verdict.layers[0].why


@pytest.mark.parametrize("found", [[], None, ()])
def test_no_issues_pass(found: Any) -> None:
    assert judge(payload(), layers=[wrap(Returns(found))]).layers[0].status == "passed"


@pytest.mark.parametrize("name", ["structure", "rules", "business_rule", "critique", "", 3, "n" * 50])
def test_names_that_cannot_be_are_refused(name: Any) -> None:
    validator = Length()
    validator.layer_name = name
    with pytest.raises(PluginError):
        wrap(validator)


def test_what_is_no_validator_is_refused() -> None:
    with pytest.raises(PluginError):
        wrap(object())


def test_entry_points_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("a_users_layers")
    module.Length, module.length = Length, Length()
    monkeypatch.setitem(sys.modules, "a_users_layers", module)
    (layer,) = layers_of([EntryPoint("one", "a_users_layers:Length", "handoffaudit.layers")])
    assert layer.name == "length"
    with pytest.raises(PluginError, match="Two entry points"):
        layers_of(EntryPoint(name, "a_users_layers:length", "handoffaudit.layers") for name in "ab")
    with pytest.raises(PluginError, match="cannot be loaded"):
        layers_of([EntryPoint("one", "a_users_layers:nothing", "handoffaudit.layers")])


def test_without_packages_none_is_installed() -> None:
    assert installed_layers() == ()
