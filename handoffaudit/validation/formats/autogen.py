"""Records of AutoGen: messages of a team, of which each `HandoffMessage` is a handoff."""

from typing import Final

from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.formats.native import Framework, NativeHandoff, text_data, time_of


def find(document: Document) -> NativeHandoff | None:
    if document.get("type") != "HandoffMessage":
        return None
    context = document.get("context")
    return NativeHandoff(
        source=document.get("source"),
        target=document.get("target"),
        source_at=("source",),
        target_at=("target",),
        data=text_data(document.get("content")) | ({"context": context} if context else {}),
        handoff_id=document.get("id"),
        at=time_of(document.get("created_at")),
    )


def resembles(document: Document) -> bool:
    kind = document.get("type")
    is_message = isinstance(kind, str) and kind.endswith(("Message", "Event"))
    return is_message and "source" in document and "models_usage" in document


FRAMEWORK: Final = Framework(
    name="a message of AutoGen",
    wanted='a message of the type "HandoffMessage"',
    find=find,
    resembles=resembles,
)
