"""Submissions as the server takes them: one line of JSON for each handoff and for each tool result."""

from __future__ import annotations

from handoffaudit_client.identity import new_id, to_name, to_time
from handoffaudit_client.plain_json import encode, shorten, to_bytes, to_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import Any

    BeforeSend = Callable[[dict[str, Any]], "dict[str, Any] | None"]

# The server accepts 1 MiB for a document with its context and evidence; names and ids need some of that.
MOST_BYTES = 1024 * 1024 - 16 * 1024

# The server reads 65,536 characters of a result, which are at most this many bytes. More would only occupy the spool.
_MOST_RESULT_BYTES = 256 * 1024

_NAMES = (
    *("trace_id", "handoff_id", "parent_handoff_id", "source_agent_id", "target_agent_id", "handoff_type"),
    *("tool", "call_id", "agent"),
)

# The first byte of a line in the spool.
HANDOFF = b"H"
RESULT = b"R"

# Control characters must not occur in a trace, because a tab ends the trace in a line of the spool.
_NO_CONTROLS = dict.fromkeys(range(32), " ")


class Submissions:
    """Make submissions: plain JSON, without secrets, and within the limits of the server."""

    def __init__(self, *, mask_secrets: bool = True, before_send: BeforeSend | None = None) -> None:
        self._mask_secrets = mask_secrets
        self._before_send = before_send

    def of_handoff(
        self,
        source: str,
        target: str,
        data: Any,
        *,
        type: str | None,  # noqa: A002 (the name of the client's parameter)
        call_chain: Sequence[str] | None,
        beside: dict[str, Any],
        context: Any,
        evidence: Any,
        sent_at: datetime | str | None,
    ) -> bytes | None:
        """Return the line of a handoff for the spool, or None if `before_send` drops it.

        `beside` has the ids and the reason that stand beside the document; empty values are left out.
        """
        document = {
            "source_agent_id": source,
            "target_agent_id": target,
            "handoff_type": to_name(type or "handoff"),
            "data": _to_data(to_plain(data)),
        }
        if call_chain:
            document["call_chain"] = [to_name(agent) for agent in call_chain]
        submission: dict[str, Any] = {"document": document}
        submission.update((name, value) for name, value in beside.items() if value)
        submission["sent_at"] = to_time(sent_at)
        if context is not None:
            submission["context"] = _to_object(to_plain(context))
        if evidence is not None:
            submission["evidence"] = _to_pieces(to_plain(evidence))
        finished = self._finish(submission)
        return HANDOFF + finished[1] if finished else None

    def of_result(
        self,
        trace: str,
        tool: str,
        result: Any,
        *,
        call_id: str | None,
        agent: str | None,
        arguments: Any,
        at: datetime | str | None,
    ) -> bytes | None:
        """Return the line of a tool result for the spool, or None if `before_send` drops it.

        The line has the trace, a tab, and the JSON of the result.
        """
        found: dict[str, Any] = {
            "tool": to_name(tool) or "unknown",
            "call_id": to_name(call_id or new_id()),
            "agent": to_name(agent or ""),
            "at": to_time(at),
            "result": to_plain(result),
        }
        if arguments is not None:
            found["arguments"] = to_plain(arguments)
        for name in ("result", "arguments"):
            if name in found and len(to_bytes(encode(found[name]))) > _MOST_RESULT_BYTES:
                found[name] = shorten(found[name], _MOST_RESULT_BYTES)
        finished = self._finish({"trace_id": trace, "tool_result": found})
        if finished is None:
            return None
        name = to_name(finished[0].get("trace_id", "")).translate(_NO_CONTROLS)
        return RESULT + to_bytes(f"{name}\t{encode(finished[0]['tool_result'])}")

    def _finish(self, submission: dict[str, Any]) -> tuple[dict[str, Any], bytes] | None:
        """Return the submission without secrets and within the limits, with its JSON; None if it is dropped."""
        if self._before_send is not None:
            changed = self._before_send(submission)
            if changed is None:
                return None
            # The function may have added values of any type.
            submission = to_plain(changed)
        text = encode(submission)
        if self._mask_secrets:
            masked = _mask(submission, text)
            if masked is not submission:
                submission = _keep_names(submission, masked)
                text = encode(submission)
        line = to_bytes(text)
        if len(line) <= MOST_BYTES:
            return submission, line
        submission = _fit(submission)
        return submission, to_bytes(encode(submission))


def _mask(submission: dict[str, Any], text: str) -> dict[str, Any]:
    from handoffaudit_client.masking import mask_plain

    masked: dict[str, Any] = mask_plain(submission, text)
    return masked


def _keep_names(submission: dict[str, Any], masked: dict[str, Any]) -> dict[str, Any]:
    """Return the masked submission with its original ids and agent names, because masked names would be other names."""
    for part in ("", "document", "tool_result"):
        plain, found = (submission[part], masked[part]) if part in masked else (submission, masked)
        found.update((name, plain[name]) for name in _NAMES if name in plain)
    return masked


def _fit(submission: dict[str, Any]) -> dict[str, Any]:
    """Return a submission whose long parts are cut to their shares of the server's limit."""
    found = dict(submission)
    document = found.get("document")
    if isinstance(document, dict):
        found["document"] = _cut_part(document, "data", 2)
    for name in ("context", "evidence", "tool_result"):
        found = _cut_part(found, name, 4)
    for name, form in (("context", _to_object), ("evidence", _to_pieces)):
        # `_cut_part` makes a text of a value with too many parts, and the server refuses a text here.
        if isinstance(found.get(name), str):
            found[name] = form(found[name])
    return found


def _cut_part(holder: dict[str, Any], name: str, share: int) -> dict[str, Any]:
    most = MOST_BYTES // share
    is_long = name in holder and len(to_bytes(encode(holder[name]))) > most
    return {**holder, name: shorten(holder[name], most)} if is_long else holder


def _to_data(data: Any) -> Any:
    """Return an object or a text, because the server takes no other data."""
    if isinstance(data, list):
        return {"items": data} if data else {}
    return {"value": data} if isinstance(data, (int, float)) else data


def _to_object(context: Any) -> dict[str, Any]:
    return context if isinstance(context, dict) else {"context": context}


def _to_pieces(evidence: Any) -> list[Any]:
    """Return evidence as a list of pieces with a source; the server takes no other form."""
    if isinstance(evidence, dict) and "content" not in evidence:
        return [{"source": source, "content": content} for source, content in evidence.items()]
    pieces = evidence if isinstance(evidence, list) else [evidence]
    return [
        {"source": f"evidence {number}", **(one if isinstance(one, dict) and "content" in one else {"content": one})}
        for number, one in enumerate(pieces, 1)
    ]
