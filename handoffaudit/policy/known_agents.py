"""The registry of known agents: the skills of the folder that the settings name."""

from functools import cache

import structlog
from django.conf import settings

from handoffaudit.validation.registry import discover, skill_files

log = structlog.get_logger(__name__)


@cache
def known_agents() -> frozenset[str] | None:
    """Read once in a process; None where no folder is named, or no skill in it can be read."""
    if settings.SKILLS_FOLDER is None:
        return None
    registry = discover(skill_files(settings.SKILLS_FOLDER))
    for warning in registry.warnings:
        log.warning(warning, folder=str(settings.SKILLS_FOLDER))
    if not registry.names:
        log.warning("No skill found: targets are not looked up.", folder=str(settings.SKILLS_FOLDER))
    return registry.names or None
