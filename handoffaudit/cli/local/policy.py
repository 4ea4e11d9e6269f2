"""What files are held against: the policy as shipped, or one out of a file, in the shapes of the API.

Of `handoffaudit.policy` only those modules are used that load nothing of Django (a contract of import-linter).
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from handoffaudit.cli.stop import Stop
from handoffaudit.policy.defaults import ROWS_AS_SHIPPED
from handoffaudit.policy.errors import InvalidPolicy
from handoffaudit.policy.parsing import parse_rows
from handoffaudit.validation.claims import parse_fields
from handoffaudit.validation.config import ANY_OTHER_TYPE, Strictness, TypePolicy, ValidationConfig

if TYPE_CHECKING:
    from handoffaudit.validation.business_rules.models import BusinessRuleSet
    from handoffaudit.validation.data_schema import DataSchema


def read_policy(path: str | None, strictness: str | None) -> ValidationConfig:
    """`strictness` overrides that of every type."""
    given = _loaded(path) if path else {}
    try:
        rows = parse_rows(given["rows"]) if "rows" in given else ROWS_AS_SHIPPED
        rules = _rules(given.get("rule_sets"))
        schemas = _schemas(given.get("schemas", {}))
        claim_fields = {name: parse_fields(fields) for name, fields in given.get("claim_fields", {}).items()}
    except (InvalidPolicy, TypeError, AttributeError, ValueError) as error:
        raise Stop(f"{path} is no policy: {error}") from error
    types = _by_type(rows, Strictness(strictness) if strictness else None)
    other = types.pop(ANY_OTHER_TYPE)
    return ValidationConfig(
        version=int(given.get("version", 0)),
        other=other,
        types=types,
        rules=rules,
        schemas=schemas,
        claim_fields=claim_fields,
    )


def _rules(given: object) -> tuple["BusinessRuleSet", ...]:
    if given is None:
        return ()
    from handoffaudit.validation.business_rules.parsing import parse_sets

    return parse_sets(given)


def _schemas(given: dict[str, Any]) -> dict[str, "DataSchema"]:
    if not given:
        return {}
    from handoffaudit.validation.data_schema import DataSchema

    return {name: DataSchema(source) for name, source in given.items()}


def _by_type(rows: Iterable[TypePolicy], strictness: Strictness | None) -> dict[str, TypePolicy]:
    return {row.handoff_type: replace(row, strictness=strictness or row.strictness) for row in rows}


def _loaded(path: str) -> dict[str, Any]:
    try:
        given = orjson.loads(Path(path).read_bytes())
    except OSError as error:
        raise Stop(f"{path} can't be read ({error.strerror}).") from error
    except orjson.JSONDecodeError as error:
        raise Stop(f"{path} is not JSON: {error}.") from error
    if not isinstance(given, dict):
        raise Stop(f'{path} is no policy: write {{"rows": […]}}, as GET /api/v1/strictness answers.')
    return given
