"""Tests that docker-compose.yml, docs/settings.md, the Dockerfile and the code name the same settings."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from handoffaudit.checks import known_names
from handoffaudit.process import drop_empty

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OURS = ("prepare", "web", "worker", "asker")
# The sections of docs/settings.md about programs that do not run in the containers.
ELSEWHERE = ("Hooks", "Tests")
# In the containers the data folder is fixed, so nobody looks for the user's own; a key is for commands that send.
NOT_NEEDED = {"XDG_DATA_HOME", "HANDOFFAUDIT_KEY"}
# What the compose file itself decides, in whole or in part.
DECIDED = {
    *("HANDOFFAUDIT_DATA", "HANDOFFAUDIT_STATIC", "DATABASE_URL", "REDIS_URL", "HANDOFFAUDIT_SECRET_KEY"),
    *("HANDOFFAUDIT_PUBLIC_URL", "HANDOFFAUDIT_ALLOWED_HOSTS", "HANDOFFAUDIT_BEHIND_PROXY", "HANDOFFAUDIT_LOG_FORMAT"),
    *("HANDOFFAUDIT_SEAL_KEY", "HANDOFFAUDIT_CHECKPOINTS"),
}


def documented() -> set[str]:
    sections = (ROOT / "docs" / "settings.md").read_text().split("\n## ")[1:]
    server = "\n".join(one for one in sections if one.partition("\n")[0] not in ELSEWHERE)
    return set(re.findall(r"^\| `([A-Z_]+)` \|", server, re.MULTILINE)) | {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"}


@pytest.mark.parametrize("service", OURS)
def test_every_documented_setting_reaches_the_container(service: str) -> None:
    found = COMPOSE["services"][service]
    assert found["env_file"] == [{"path": ".env", "required": False}]
    assert set(found["environment"]) == documented() - NOT_NEEDED
    assert {name for name, value in found["environment"].items() if value is not None} == DECIDED


def test_every_build_argument_can_be_set() -> None:
    build = COMPOSE["services"]["asker"]["build"]
    named = re.findall(r'^ARG ([A-Z]+)=""$', (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert build["args"] == {name: f"${{HANDOFFAUDIT_{name}:-}}" for name in named}
    assert {f"HANDOFFAUDIT_{name}" for name in named} <= known_names()


def test_a_build_argument_installs_what_the_other_providers_need() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"bedrock", "vertex"} <= set(extras)
    assert 'ARG EXTRAS=""' in dockerfile
    assert "[$EXTRAS]" in dockerfile


def test_what_the_wheel_needs_reaches_the_build_of_the_image() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {source.partition("/")[0] for source in (*hatch["force-include"], *hatch["packages"])}
    assert needed <= kept
    dockerfile = (ROOT / "Dockerfile").read_text()
    copied = {name for line in re.findall(r"^COPY ([^-].*)$", dockerfile, re.MULTILINE) for name in line.split()[:-1]}
    assert needed <= copied


def test_an_empty_value_means_that_the_variable_is_not_set() -> None:
    environment = {"HANDOFFAUDIT_MODEL_CONCURRENCY": "", "REDIS_URL": " ", "HANDOFFAUDIT_DEBUG": "true", "PAGER": ""}
    drop_empty(environment)
    assert environment == {"HANDOFFAUDIT_DEBUG": "true", "PAGER": ""}


def test_settings_that_are_all_empty_are_the_defaults(tmp_path: Path) -> None:
    empty = dict.fromkeys(documented() - {"HANDOFFAUDIT_DATA"}, "")
    code = "from handoffaudit import settings; print(settings.MODEL_CONCURRENCY, settings.DEBUG, settings.REDIS_URL)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **empty, "HANDOFFAUDIT_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("32 False \n", "")
