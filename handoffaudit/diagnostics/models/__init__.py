"""The rows of diagnostics, by what they are about."""

from handoffaudit.diagnostics.models.files import FileReport, HealthCount
from handoffaudit.diagnostics.models.groups import FindingGroup, FindingGroupDay, GroupedHandoff
from handoffaudit.diagnostics.models.logs import LogBlock, LogCount, LogImport, LogPart, LogText
from handoffaudit.diagnostics.models.retention import RetentionRun
from handoffaudit.diagnostics.models.traces import Attribution, TracedHandoff, Watermark

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
