"""Tests of the registry of known agents that the settings name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from pytest_django import Settings

from handoffaudit.accounts.models import Tenant
from handoffaudit.env import folder_or_none
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import known_agents
from handoffaudit.policy.models import Kind


def forget() -> None:
    """Clear the caches of values that a process reads once."""
    known_agents.cache_clear()
    kinds._slot.cache_clear()


@pytest.fixture(autouse=True)
def read_anew() -> Iterator[None]:
    forget()
    yield
    forget()


def test_without_a_folder_any_agent_is_known(tenant: Tenant) -> None:
    assert kinds.load_config(tenant.pk).known_agents is None


def test_the_skills_of_the_folder_are_known_in_what_is_in_force_and_in_drafts(
    tenant: Tenant, tmp_path: Path, settings: Settings
) -> None:
    (tmp_path / "write").mkdir()
    (tmp_path / "write" / "SKILL.md").write_text("---\nname: writer\n---\n")
    settings.SKILLS_FOLDER = tmp_path
    assert kinds.load_config(tenant.pk).known_agents == frozenset({"writer"})
    assert kinds.draft_config(tenant.pk, Kind.RULES, {"sets": []}).known_agents == frozenset({"writer"})


def test_a_folder_without_skills_is_no_registry(tmp_path: Path, settings: Settings) -> None:
    settings.SKILLS_FOLDER = tmp_path
    assert known_agents() is None


def test_a_folder_that_is_not_there_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDOFFAUDIT_SKILLS", str(tmp_path / "none"))
    with pytest.raises(ImproperlyConfigured, match=r"HANDOFFAUDIT_SKILLS is .* not a folder"):
        folder_or_none("HANDOFFAUDIT_SKILLS")
    monkeypatch.setenv("HANDOFFAUDIT_SKILLS", str(tmp_path))
    assert folder_or_none("HANDOFFAUDIT_SKILLS") == tmp_path
