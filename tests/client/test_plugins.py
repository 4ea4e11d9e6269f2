"""Tests of the packages of the plug-ins where no framework is installed."""

import json
import subprocess
import sys

import pytest
from handoffaudit_client.langchain.messages import lift

from tests.client.conftest import FOLDER

PACKAGES = {
    "a2a": ["GatedExecutor", "HandoffInterceptor", "HandoffMiddleware"],
    "crewai": ["HandoffGate"],
    "google_adk": ["HandoffPlugin"],
    "langchain": ["HandoffCallback", "HandoffGate", "handoff_gate"],
    "openai_agents": ["HandoffProcessor", "gated"],
    "pydantic_ai": ["HandoffCapability"],
    "strands": ["HandoffHooks"],
}
MOST_LINES = 120

LOAD = """
import json, sys
from importlib import import_module
before = set(sys.modules)
found = {}
for name in json.loads(sys.argv[1]):
    package = import_module(f"handoffaudit_client.{name}")
    found[name] = package.__all__
    try:
        package.nothing
    except AttributeError as error:
        assert "has no attribute 'nothing'" in str(error)
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
print(json.dumps([found, sorted(loaded - sys.stdlib_module_names - {"handoffaudit_client"})]))
"""


def test_a_package_loads_no_framework_before_a_name_is_used() -> None:
    names = json.dumps(list(PACKAGES))
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r}){LOAD}", names],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [PACKAGES, []]


@pytest.mark.parametrize("name", PACKAGES)
def test_each_module_of_a_plug_in_is_short(name: str) -> None:
    lengths = {path.name: path.read_text().count("\n") for path in (FOLDER / "handoffaudit_client" / name).glob("*.py")}
    assert len(lengths) >= 2
    assert max(lengths.values()) <= MOST_LINES, lengths


@pytest.mark.parametrize(
    "prompt",
    [
        ("system", "Be brief."),
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"type": "system", "content": "Be brief."},
    ],
)
def test_the_prompt_of_an_agent_is_not_handed_over(prompt: object) -> None:
    assert lift(None, {"messages": [{"role": "user", "content": "Order 40 chairs."}, prompt]}) == "Order 40 chairs."
    assert lift(None, {"messages": [prompt]}) == {}
