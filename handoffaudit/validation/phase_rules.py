"""Phase rules and their results: a workflow's requirements on the sender's files and commands.

`handoffaudit hook` evaluates the rules on the agent's machine. This module parses rules and results, and computes the
overall status. The module imports little, because `handoffaudit hook` starts on every tool call.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from handoffaudit.validation.errors import ConfigError, InvalidConfigError, config_error
from handoffaudit.validation.text import closest, either, show, type_name, unknown_field_hint

MOST_RULES = 100
MOST_RESULTS = 200
MOST_PATTERNS = 50
MOST_ARGUMENTS = 50
LONGEST_ID = 200
LONGEST_TEXT = 2000
LONGEST_RUN_SECONDS = 600
DEFAULT_RUN_SECONDS = 60

T = TypeVar("T")


class RuleType(StrEnum):
    FILE_EXISTS = "file_exists"
    CONTENT_MATCH = "content_match"
    TEST_PASS = "test_pass"  # noqa: S105
    CUSTOM = "custom"


class RuleSeverity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class RuleStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Overall(StrEnum):
    """The overall status of a workflow's rules."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PhaseRule:
    """One requirement of a workflow.

    `rule_config` has the fields of the rule's type, with their defaults filled in.
    """

    rule_id: str
    rule_type: RuleType
    rule_config: Mapping[str, Any]
    severity: RuleSeverity = RuleSeverity.ERROR
    rule_name: str = ""

    def as_plain(self) -> dict[str, Any]:
        """Return the rule as JSON values, in the form that `parse_rules` reads."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The result of one evaluation of a rule.

    `validated_at` is an ISO 8601 time.
    """

    result_id: str
    rule_id: str
    validated_at: str
    status: RuleStatus
    message: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        """Return the result as JSON values, in the form that `parse_results` reads."""
        return asdict(self)


def parse_rules(plain: object) -> tuple[PhaseRule, ...]:
    """Return the rules of a list of JSON values. The list may have at most 100 entries.

    Raises InvalidConfigError with all flaws and their places (`[2].rule_config.patterns[0]`).
    """
    rules = _parse_list(plain, "rules", MOST_RULES, _read_rule)
    _refuse_repeated([rule.rule_id for rule in rules], "rule_id", "rule")
    return rules


def parse_results(plain: object) -> tuple[RuleResult, ...]:
    """Return the results of a list of JSON values. The list may have at most 200 entries.

    Raises InvalidConfigError with all flaws and their places. Results of unknown rules are allowed, and `overall`
    ignores them.
    """
    results = _parse_list(plain, "results", MOST_RESULTS, _read_result)
    _refuse_repeated([result.result_id for result in results], "result_id", "result")
    return results


def overall(rules: Sequence[PhaseRule], results: Iterable[RuleResult]) -> Overall:
    """Return the overall status of the rules.

    The status is failed if any rule of severity error failed. Otherwise, the status is pending before the first result,
    in progress while a rule has no result, and passed when every rule has a result. If a rule has several results, the
    last result counts. A skipped rule did not fail. An empty list of rules has passed.
    """
    status = {result.rule_id: result.status for result in results}
    has_result = [rule.rule_id in status for rule in rules]
    if failed_errors(rules, status):
        return Overall.FAILED
    if all(has_result):
        return Overall.PASSED
    return Overall.IN_PROGRESS if any(has_result) else Overall.PENDING


def failed_errors(rules: Iterable[PhaseRule], status: Mapping[str, RuleStatus]) -> list[PhaseRule]:
    """Return the failed rules of severity error. `status` maps rule ids to statuses."""
    return [
        rule for rule in rules if rule.severity is RuleSeverity.ERROR and status.get(rule.rule_id) is RuleStatus.FAILED
    ]


class _Object:
    """A reader of one plain object that collects the flaws of its fields."""

    def __init__(self, place: str, plain: Mapping[str, Any], fields: Sequence[str], flaws: list[ConfigError]) -> None:
        self.place = place
        self.plain = plain
        self.flaws = flaws
        for key in plain:
            if key not in fields:
                remedy, _ = unknown_field_hint(str(key), fields, plain, f"Remove it; use only {either(fields)}.")
                self.wrong(str(key), f"{show(key)} is not a known field.", remedy)

    def wrong(self, name: str, message: str, remedy: str) -> None:
        self.flaws.append(config_error(f"{self.place}.{name}", self.plain.get(name), message, remedy))

    def text(self, name: str, longest: int = LONGEST_TEXT, *, needed: bool = True) -> str:
        """Return the text of a field. With `needed`, the field must exist and must not be empty."""
        value = self.plain.get(name, "")
        if not isinstance(value, str):
            self.wrong(name, f"{name} is {type_name(value)}.", "Give a string.")
        elif needed and not value:
            self.wrong(name, f"{name} is {'empty' if name in self.plain else 'missing'}.", f"Give the {name}.")
        elif len(value) > longest:
            self.wrong(name, f"{name} is longer than {longest:,} characters.", "Shorten it.")
        elif "\0" in value:
            self.wrong(name, f"{name} contains a NUL character.", "Remove it.")
        else:
            return value
        return ""

    def choice(self, name: str, choices: type[StrEnum], default: str | None = None) -> Any:
        value = self.plain.get(name, default)
        options = [one.value for one in choices]
        if value in options:
            return choices(value)
        near = closest(value, options)
        what = "missing" if name not in self.plain else show(value)
        self.wrong(name, f"{name} is {what}.", f"Use {near}." if near else f"Use one of {either(options)}.")
        return None

    def whole(self, name: str, low: int, high: int, default: int) -> int:
        value = self.plain.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self.wrong(name, f"{name} is {show(value)}.", f"Give a whole number from {low} to {high}.")
        return default

    def texts(self, name: str, most: int, *, needed: bool) -> list[str]:
        """Return a list of texts. With `needed`, the list must not be empty or contain an empty text."""
        value = self.plain.get(name, [])
        if not isinstance(value, list):
            self.wrong(name, f"{name} is {type_name(value)}, not a list of strings.", "Give a list of strings.")
        elif not all(isinstance(one, str) and "\0" not in one for one in value):
            remedy = "Give only strings without the NUL character."
            self.wrong(name, f"{name} has an entry that is not a string or contains a NUL character.", remedy)
        elif needed and not all(value or [""]):
            self.wrong(
                name, f"{name} is empty or contains an empty string.", "Give at least one string, and no empty strings."
            )
        elif len(value) > most or any(len(one) > LONGEST_TEXT for one in value):
            remedy = f"Give at most {most} strings of at most {LONGEST_TEXT:,} characters."
            self.wrong(name, f"{name} is too long.", remedy)
        else:
            return value
        return []


_CONFIG_FIELDS: dict[RuleType, tuple[str, ...]] = {
    RuleType.FILE_EXISTS: ("file_path",),
    RuleType.CONTENT_MATCH: ("file_path", "patterns"),
    RuleType.TEST_PASS: ("test_command", "expected_exit_code", "timeout_seconds"),
    RuleType.CUSTOM: ("script_path", "args", "timeout_seconds"),
}


def _config(kind: RuleType, config: _Object) -> dict[str, Any]:
    match kind:
        case RuleType.FILE_EXISTS:
            return {"file_path": config.text("file_path")}
        case RuleType.CONTENT_MATCH:
            patterns = config.texts("patterns", MOST_PATTERNS, needed=True)
            return {"file_path": config.text("file_path"), "patterns": patterns}
        case RuleType.TEST_PASS:
            command = config.text("test_command")
            own = {"test_command": command, "expected_exit_code": config.whole("expected_exit_code", 0, 255, 0)}
        case RuleType.CUSTOM:
            own = {
                "script_path": config.text("script_path"),
                "args": config.texts("args", MOST_ARGUMENTS, needed=False),
            }
    seconds = config.whole("timeout_seconds", 1, LONGEST_RUN_SECONDS, DEFAULT_RUN_SECONDS)
    return {**own, "timeout_seconds": seconds}


def _read_rule(place: str, plain: Mapping[str, Any], flaws: list[ConfigError]) -> PhaseRule:
    fields = ("rule_id", "rule_type", "rule_config", "severity", "rule_name")
    read = _Object(place, plain, fields, flaws)
    kind = read.choice("rule_type", RuleType)
    config = plain.get("rule_config")
    known: dict[str, Any] = {}
    if not isinstance(config, dict):
        read.wrong("rule_config", f"rule_config is {type_name(config)}.", "Give an object with the fields of the type.")
    elif kind is not None:
        known = _config(kind, _Object(f"{place}.rule_config", config, _CONFIG_FIELDS[kind], flaws))
    return PhaseRule(
        rule_id=read.text("rule_id", LONGEST_ID),
        rule_type=kind,
        rule_config=known,
        severity=read.choice("severity", RuleSeverity, RuleSeverity.ERROR),
        rule_name=read.text("rule_name", needed=False),
    )


def _read_result(place: str, plain: Mapping[str, Any], flaws: list[ConfigError]) -> RuleResult:
    fields = ("result_id", "rule_id", "validated_at", "status", "message", "details")
    read = _Object(place, plain, fields, flaws)
    details = plain.get("details")
    details = {} if details is None else details
    if not isinstance(details, dict):
        read.wrong("details", f"details is {type_name(details)}.", "Give an object.")
    return RuleResult(
        result_id=read.text("result_id", LONGEST_ID),
        rule_id=read.text("rule_id", LONGEST_ID),
        validated_at=read.text("validated_at", LONGEST_ID),
        status=read.choice("status", RuleStatus),
        message=read.text("message", needed=False),
        details=details,
    )


def _parse_list(plain: object, what: str, most: int, read: Callable[..., T]) -> tuple[T, ...]:
    if not isinstance(plain, list):
        raise InvalidConfigError(
            [config_error("", plain, f"This is {type_name(plain)}, not a list of {what}.", "Give a list.")]
        )
    if len(plain) > most:
        message = f"There are {len(plain):,} {what}, over the limit of {most}."
        raise InvalidConfigError([config_error("", len(plain), message, "Leave some out.")])
    flaws: list[ConfigError] = []
    found = list(_read_all(plain, read, flaws))
    if flaws:
        raise InvalidConfigError(flaws)
    return tuple(found)


def _read_all(plain: list[Any], read: Callable[..., T], flaws: list[ConfigError]) -> Iterator[T]:
    for index, one in enumerate(plain):
        if isinstance(one, dict):
            yield read(f"[{index}]", one, flaws)
        else:
            flaws.append(config_error(f"[{index}]", one, f"This is {type_name(one)}.", "Give an object."))


def _refuse_repeated(ids: Sequence[str], name: str, what: str) -> None:
    flaws = [
        config_error(f"[{index}].{name}", one, f"Another {what} has the id {show(one)}.", "Give each one a unique id.")
        for index, one in enumerate(ids)
        if one in ids[:index]
    ]
    if flaws:
        raise InvalidConfigError(flaws)
