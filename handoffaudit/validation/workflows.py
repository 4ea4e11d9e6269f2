"""The workflow that a handoff belongs to, where its sender names one."""

from handoffaudit.validation.formats import delegation, universal
from handoffaudit.validation.formats.base import obj
from handoffaudit.validation.record import Record
from handoffaudit.validation.text import clean_or_empty


def workflow_of(record: Record) -> str:
    """Its id as senders write it, empty where none is named.

    `universal` has it in the handoff's source, `delegation` beside the tool call; in any format the context may name
    it. A trace or a session is one run and no workflow.
    """
    found = (_of_document(record), record.context.get("workflow_id"))
    return next((text for text in map(clean_or_empty, found) if text), "")


def _of_document(record: Record) -> object:
    if record.format == universal.NAME:
        return obj(obj(record.document.get("handoff")).get("source")).get("workflow_id")
    if record.format == delegation.NAME:
        return record.document.get("workflow_id" if delegation.is_hook(record.document) else "workflowId")
    return None
