"""The models of diagnostics: handoff files, findings, logs and retention runs."""

from handoffaudit.diagnostics.models.findings import (
    Attribution,
    FindingGroup,
    FindingGroupDay,
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
    RetentionRun,
)

__all__ = [
    "Attribution",
    "FileReport",
    "FindingGroup",
    "FindingGroupDay",
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
