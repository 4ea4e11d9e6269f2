"""Models of findings along traces and in groups, of logs and handoff files, and of the removal of old data."""

from handoffaudit.diagnostics.models.findings import (
    Attribution,
    BlockedText,
    CodeMute,
    FindingGroup,
    FindingGroupDay,
    FindingGroupRoute,
    GroupedHandoff,
    TracedHandoff,
    Watermark,
)
from handoffaudit.diagnostics.models.logs import (
    FileReport,
    HealthCount,
    LogBlock,
    LogCount,
    LogImport,
    LogPart,
    LogText,
)
from handoffaudit.diagnostics.models.removal import NOWHERE, Erasure, ErasureState, RetentionRun

__all__ = [
    "NOWHERE",
    "Attribution",
    "BlockedText",
    "CodeMute",
    "Erasure",
    "ErasureState",
    "FileReport",
    "FindingGroup",
    "FindingGroupDay",
    "FindingGroupRoute",
    "GroupedHandoff",
    "HealthCount",
    "LogBlock",
    "LogCount",
    "LogImport",
    "LogPart",
    "LogText",
    "RetentionRun",
    "TracedHandoff",
    "Watermark",
]
