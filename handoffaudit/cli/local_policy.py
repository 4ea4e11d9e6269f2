"""Policies for judging files: the shipped policies, or policies from files in the form of the API's answers.

Only the modules of `handoffaudit.policy` that do not load Django are used; a contract of import-linter checks this.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from handoffaudit.cli import Stop
from handoffaudit.validation.config import (
    ANY_OTHER_TYPE,
    ROWS_AS_SHIPPED,
    Strictness,
    TypePolicy,
    ValidationConfig,
)

LARGEST = 16 * 1024 * 1024


def read_policy(paths: Sequence[str], strictness: str | None) -> ValidationConfig:
    """Read policies from files; `strictness` overrides the strictness of all types.

    Each file holds the answer of `GET /strictness`, `/rules`, `/schemas` or `/prompts`.
    """
    config = _replace_rows(ValidationConfig(version=0, other=TypePolicy(ANY_OTHER_TYPE)), 0, ROWS_AS_SHIPPED)
    for path in paths:
        config = _add_file(config, path)
    return _set_strictness(config, Strictness(strictness)) if strictness else config


def _add_file(config: ValidationConfig, path: str) -> ValidationConfig:
    from handoffaudit.policy.values import InvalidPolicy

    given = _load(path)
    try:
        return _detect_kind(path, given)(config, given)
    except (InvalidPolicy, TypeError, AttributeError, ValueError) as error:
        raise Stop(f"{path} is not a policy: {error}") from error


Added = Callable[[ValidationConfig, dict[str, Any]], ValidationConfig]


def _detect_kind(path: str, given: dict[str, Any]) -> Added:
    if "sets" in given:
        return _add_rules
    rows = given.get("rows")
    if not isinstance(rows, list):
        raise Stop(f'{path} is not a policy: it has neither "rows" (strictness, schemas, prompts) nor "sets" (rules).')
    if not rows:
        # These are schemas or prompts without rows, because a strictness table always has a row.
        return lambda config, given: config
    fields = {field for row in rows if isinstance(row, dict) for field in row}
    if fields & {"schema", "claim_fields"}:
        return _add_schemas
    return _add_prompts if fields & {"use", "text"} else _add_table


def _add_table(config: ValidationConfig, given: dict[str, Any]) -> ValidationConfig:
    from handoffaudit.policy.strictness import parse_rows

    return _replace_rows(config, int(given.get("version", 0)), parse_rows(given["rows"]))


def _replace_rows(config: ValidationConfig, version: int, rows: Sequence[TypePolicy]) -> ValidationConfig:
    types = {row.handoff_type: row for row in rows}
    other = types.pop(ANY_OTHER_TYPE)
    return replace(config, version=version, other=other, types=types)


def _add_rules(config: ValidationConfig, given: dict[str, Any]) -> ValidationConfig:
    from handoffaudit.policy.rules import check_sets, parse_rule_sets

    return replace(config, rules=check_sets(parse_rule_sets(given["sets"])))


def _add_schemas(config: ValidationConfig, given: dict[str, Any]) -> ValidationConfig:
    from handoffaudit.policy.schemas import check_rows
    from handoffaudit.policy.schemas import parse_rows as parse_schemas

    rows = check_rows(parse_schemas(given["rows"]))
    return replace(
        config,
        schemas={row.handoff_type: row.schema for row in rows if row.schema},
        claim_fields={row.handoff_type: row.claim_fields for row in rows if row.claim_fields is not None},
    )


def _add_prompts(config: ValidationConfig, given: dict[str, Any]) -> ValidationConfig:
    from handoffaudit.policy.prompts import current_prompts
    from handoffaudit.policy.prompts import parse_rows as parse_prompts

    return replace(config, prompts=current_prompts(parse_prompts(given["rows"]), str(int(given.get("version", 0)))))


def _set_strictness(config: ValidationConfig, strictness: Strictness) -> ValidationConfig:
    types = {name: replace(row, strictness=strictness) for name, row in config.types.items()}
    return replace(config, other=replace(config.other, strictness=strictness), types=types)


def _load(path: str) -> dict[str, Any]:
    try:
        with Path(path).open("rb") as file:
            read = file.read(LARGEST + 1)
        given = orjson.loads(read)
    except OSError as error:
        raise Stop(f"{path} can't be read ({error.strerror}).") from error
    except orjson.JSONDecodeError as error:
        too_large = f"larger than {LARGEST // 1024 // 1024} MiB" if len(read) > LARGEST else f"not JSON: {error}"
        raise Stop(f"{path} is {too_large}.") from error
    if not isinstance(given, dict):
        raise Stop(f'{path} is not a policy: write {{"rows": […]}}, as GET /api/v1/strictness answers.')
    return given
