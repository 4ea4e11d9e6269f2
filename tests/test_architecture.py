"""Tests of the rules for modules and their names (see ARCHITECTURE.md)."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "handoffaudit"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts)
SCRIPTS = sorted((ROOT / "static" / "js").rglob("*.js"))
BESIDE = sorted([*(ROOT / "evals").rglob("*.py"), *(ROOT / "client" / "handoffaudit_client").rglob("*.py")])
# Basenames that mean the same kind of file wherever they stand.
KINDS = {
    "__init__", "apps", "base", "client", "errors", "filters", "forms", "jobs", "labels", "list", "models", "page",
    "queries", "run", "schemas", "stats", "store", "tasks", "urls",
}  # fmt: skip
GERUNDS = {"grounding", "logging", "masking", "paging", "pricing", "routing", "testing", "warning"}
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = 60
# These bounds follow the package down. A change that needs a higher one needs another place for its code.
MOST_MODULES = 400
MOST_SHARED_IN_A_PACKAGE = 6
PACKAGES_WITH_CODE = {
    "accounts", "cli", "drawing/agent_map", "handoffs/models", "llm", "validation", "validation/formats",
    "validation/layers", "validation/layers/grounding", "validation/library", "validation/repair",
}  # fmt: skip
PATHS = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.(?:py|html|md|json|toml)|(?:[a-z_]+/)+)`")


def test_no_module_and_no_function_is_too_long() -> None:
    too_long = [f"{path}: {lines}" for path in MODULES + BESIDE if (lines := path.read_text().count("\n")) > MOST_LINES]
    for path in MODULES + BESIDE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MOST_LINES_OF_A_FUNCTION:
                    too_long.append(f"{path}:{node.lineno} {node.name}: {lines}")
    assert too_long == []


def test_modules_are_named_as_nouns() -> None:
    named = MODULES + BESIDE + SCRIPTS
    found = [str(path) for path in named if path.stem.endswith("ing") and path.stem not in GERUNDS]
    assert found == []


def test_the_number_of_modules_does_not_grow() -> None:
    """Nobody searches for an `__init__`, which holds the docstring of its package, so it is not counted.

    Some packages have code in it: the interface or the entry point of the package. No other may get code.
    """
    assert len([path for path in MODULES if path.name != "__init__.py"]) <= MOST_MODULES
    with_code = {
        path.parent.relative_to(PACKAGE).as_posix()
        for path in MODULES
        if path.name == "__init__.py" and len(ast.parse(path.read_text()).body) > 1
    }
    assert with_code <= PACKAGES_WITH_CODE


def test_a_basename_means_one_thing_in_a_package() -> None:
    """The same feature has the same name in every package; within one package a name should be there once."""
    names = Counter((path.relative_to(PACKAGE).parts[0], path.stem) for path in MODULES if path.stem not in KINDS)
    shared = [f"{package}: {name}" for (package, name), number in names.items() for _ in range(number) if number > 1]
    assert len(shared) <= MOST_SHARED_IN_A_PACKAGE, shared


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_on_the_pages_for_contributors_exists(page: str) -> None:
    found = PATHS.findall((ROOT / page).read_text())
    assert len(found) > 10
    places = (ROOT, PACKAGE, PACKAGE / "validation")
    assert [path for path in found if not any((place / path).exists() for place in places)] == []
