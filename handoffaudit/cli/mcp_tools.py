"""MCP server with the tools for handoffs: submit, check, verdicts, blocked handoffs and rule codes."""

import json
from importlib.metadata import version
from typing import Annotated, Any, Final
from urllib.parse import quote
from uuid import uuid4

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from handoffaudit.cli.mcp_api import LONGEST_WAIT, Api
from handoffaudit.validation.text import MAX_TEXT, nearest

INSTRUCTIONS: Final = (
    "handoffaudit judges handoffs between AI agents. Before you give work to another agent, call submit_handoff with "
    "the whole work result; start the other agent only if may_start is true. If the handoff is rejected, correct what "
    "the findings name and submit again with retry_of. If it is held, a person decides: call get_verdict with wait."
)

_MOST_FINDINGS: Final = 10
_MOST_CODES: Final = 10
_LONGEST_TEXT: Final = 500
_LONGEST_EXAMPLE: Final = 4_000

_BLOCKED: Final = "held,rejected,declined"

_TEXTS: Final = {
    "accepted": "The handoff is accepted.",
    "approved": "A person approved the handoff. Call get_verdict with start=true right before the next agent starts: "
    "an approval works once.",
    "held": "The handoff is held: a person has to decide before the next agent may start. Do not submit it again; call "
    "get_verdict with wait.",
    "rejected": "The handoff is rejected: the next agent must not start. Correct the findings, and submit again with "
    "retry_of and this handoff_id.",
    "declined": "A person declined the handoff: the next agent must not start. Do not submit the same again: correct "
    "it, and submit again with retry_of and this handoff_id.",
    "superseded": "A later attempt replaced the handoff: ask for the later attempt.",
}
_NO_VERDICT: Final = "There is no verdict yet: the next agent must wait. Call get_verdict with wait."
_CHECKED: Final = {
    "accepted": "The handoff would be accepted. Nothing is stored: submit it before the next agent starts.",
    "held": "The handoff would be held for a person. Nothing is stored.",
    "rejected": "The handoff would be rejected. Nothing is stored: correct the findings before you submit it.",
}

Wait = Annotated[int, Field(description="Seconds to wait for the verdict.", ge=0, le=LONGEST_WAIT)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Data = Annotated[Any, Field(description="The work result: an object, or a text.")]
Context = Annotated[dict[str, Any] | None, Field(description="Facts that the data may use, such as the question.")]
Evidence = Annotated[
    list[dict[str, Any]] | None,
    Field(description='Sources of the data: [{"source": name, "content": text or JSON}].', max_length=1_000),
]


class FindingOut(BaseModel):
    """A defect of a handoff."""

    code: str
    severity: str
    path: str
    message: str
    hint: str


class Judgement(BaseModel):
    """The verdict on a handoff; the next agent may start only if `may_start` is true."""

    state: str
    may_start: bool
    why: str
    handoff_id: str = ""
    findings: list[FindingOut] = []
    findings_total: int = 0
    approval: str = ""
    page: str = ""


class BlockedOut(BaseModel):
    """A handoff from which work must not go on."""

    handoff_id: str
    state: str
    source_agent: str
    target_agent: str
    handoff_type: str
    trace_id: str | None
    codes: list[str]
    flags: list[str]
    received_at: str
    page: str


class BlockedList(BaseModel):
    """Blocked handoffs, newest first; `next` is the cursor of the next page."""

    items: list[BlockedOut]
    next: str | None


class CodeOut(BaseModel):
    """The meaning of a rule code, with an example before and after."""

    code: str
    severity: str
    holds: bool
    title: str
    what: str
    why: str
    hint: str
    example_before: str = ""
    example_after: str = ""


class Tools:
    """The tools of one server."""

    def __init__(self, url: str, key: str) -> None:
        self._api = Api(url, key)

    async def submit_handoff(  # noqa: PLR0913, PLR0917 (each parameter is an argument of the tool)
        self,
        source_agent: Name,
        target_agent: Name,
        data: Data,
        handoff_type: Name = "handoff",
        trace_id: Annotated[str, Field(description="Id of the piece of work, the same in all its handoffs.")] = "",
        parent_handoff_id: Annotated[str, Field(description="The handoff that gave the work to source_agent.")] = "",
        reason: Annotated[str, Field(description="Why the work goes to this agent, or returns to it.")] = "",
        context: Context = None,
        evidence: Evidence = None,
        handoff_id: Annotated[str, Field(description="Your own id; the same id is stored once.")] = "",
        retry_of: Annotated[str, Field(description="The handoff_id of the attempt that this one corrects.")] = "",
        wait: Wait = 20,
    ) -> Judgement:
        """Store a handoff from one agent to another, and return the verdict: whether the next agent may start."""
        handoff_id = handoff_id or str(uuid4())
        body = _submission(source_agent, target_agent, data, handoff_type, context, evidence)
        given = {"trace_id": trace_id, "parent_handoff_id": parent_handoff_id, "reason": reason, "retry_of": retry_of}
        body |= {"handoff_id": handoff_id} | {name: value for name, value in given.items() if value}
        try:
            status, found = await self._api.call("POST", "/handoffs", body, wait=wait, takes=(200, 202, 422))
        except ToolError as error:
            raise ToolError(f"{error}\nThe handoff_id of this call is {handoff_id}.") from None
        if status == 422 and "state" not in found:
            raise ToolError(f"The server refuses the handoff: {_cut(found.get('detail'), _LONGEST_TEXT)}")
        return _judgement(found, self._api.url)

    async def check_handoff(
        self,
        source_agent: Name,
        target_agent: Name,
        data: Data,
        handoff_type: Name = "handoff",
        trace_id: Annotated[str, Field(description="Id of the piece of work; its earlier handoffs count.")] = "",
        reason: Annotated[str, Field(description="Why the work goes to this agent, or returns to it.")] = "",
        context: Context = None,
        evidence: Evidence = None,
    ) -> Judgement:
        """Judge a handoff without storing it, to correct it before you submit it."""
        body = _submission(source_agent, target_agent, data, handoff_type, context, evidence)
        body |= {name: value for name, value in (("trace_id", trace_id), ("reason", reason)) if value}
        _, found = await self._api.call("POST", "/validate", body)
        outcome = str(found.get("outcome"))
        findings, total = _findings(found)
        why = _CHECKED.get(outcome, "Nothing is stored.")
        return Judgement(state=outcome, may_start=False, why=why, findings=findings, findings_total=total)

    async def get_verdict(
        self,
        handoff_id: Name,
        wait: Annotated[int, Field(description="Seconds to wait for a decision.", ge=0, le=LONGEST_WAIT)] = 0,
        start: Annotated[bool, Field(description="The next agent starts now: use the approval of a person.")] = False,  # noqa: FBT002 (a tool has names only)
    ) -> Judgement:
        """Return the verdict on a stored handoff. With `wait`, wait for the verdict or for the decision of a person."""
        reference = quote(await self._reference(handoff_id), safe="")
        _, found = await self._api.call("GET", f"/handoffs/{reference}", wait=wait)
        judgement = _judgement(found, self._api.url)
        if start and judgement.state == "approved":
            # The idempotency key is the server's id: the sender's id may have characters that a header cannot hold.
            path, key = f"/handoffs/{reference}/use", str(found["id"])
            status, used = await self._api.call("POST", path, idempotency_key=key, takes=(200, 409))
            judgement.may_start = status == 200
            judgement.approval = str(used.get("approval") or "") if status == 409 else "used"
            judgement.why = "The next agent may start." if status == 200 else _cut(used.get("detail"), _LONGEST_TEXT)
        return judgement

    async def list_blocked(
        self,
        state: Annotated[str, Field(description="held, rejected or declined, separated by commas.")] = _BLOCKED,
        source_agent: str = "",
        target_agent: str = "",
        handoff_type: str = "",
        code: Annotated[str, Field(description="Only handoffs with a finding of this rule code.")] = "",
        trace_id: str = "",
        limit: Annotated[int, Field(ge=1, le=50)] = 20,
        cursor: Annotated[str, Field(description="The value of `next` on the previous page.")] = "",
    ) -> BlockedList:
        """List handoffs from which work must not go on: held for a person, rejected or declined, newest first."""
        states = [one.strip() for one in state.split(",") if one.strip()]
        if not states or set(states) - set(_BLOCKED.split(",")):
            raise ToolError(f"state is {_cut(state, 100)!r}: give held, rejected or declined, separated by commas.")
        given = {
            "state": ",".join(states),
            "source": source_agent,
            "target": target_agent,
            "type": handoff_type,
            "code": code,
            "trace": trace_id,
            "cursor": cursor,
        }
        params = {name: value for name, value in given.items() if value} | {"limit": str(limit)}
        _, found = await self._api.call("GET", "/handoffs", params=params)
        items = [_describe_blocked(one, self._api.url) for one in found.get("items") or ()]
        return BlockedList(items=items, next=found.get("next"))

    async def explain_code(self, code: Name) -> CodeOut:
        """Explain a rule code of a finding: what is wrong, why it matters, how to fix it, with an example."""
        from handoffaudit.validation.layers import CATALOGUE, FAMILIES, entry_of, example_of

        if code not in CATALOGUE and code.partition(".")[0] not in FAMILIES:
            near = nearest(code, CATALOGUE, 5)
            hint = f"Did you mean {', '.join(near)}?" if near else "list_blocked names the codes of blocked handoffs."
            raise ToolError(f"There is no rule code {_cut(code, 100)!r} among the shipped ones. {hint}")
        entry, example = entry_of(code), example_of(code)
        return CodeOut(
            code=code,
            severity=entry.severity.value,
            holds=entry.holds,
            title=entry.title,
            what=entry.what,
            why=entry.why,
            hint=entry.hint,
            example_before=_example(example.before) if example else "",
            example_after=_example(example.after) if example else "",
        )

    async def _reference(self, handoff_id: str) -> str:
        """Return the id for the path of a request: the sender's id if a path can hold that id, or else the server's id.

        Raise `ToolError` if the server's id is needed and the server has no such handoff.
        """
        if "/" not in handoff_id and handoff_id.strip("."):
            return handoff_id
        _, found = await self._api.call("GET", "/handoffs", params={"handoff_id": handoff_id, "limit": "1"})
        if not found.get("items"):
            raise ToolError(f"There is no handoff {_cut(handoff_id, 100)!r}: check the id.")
        return str(found["items"][0]["id"])


def create_server(url: str, key: str) -> MCPServer[Any]:
    """Return the MCP server for the handoffaudit server at this address."""
    tools = Tools(url, key)
    server: MCPServer[Any] = MCPServer(
        "handoffaudit", instructions=INSTRUCTIONS, version=version("handoffaudit"), log_level="WARNING"
    )
    reads = ToolAnnotations(read_only_hint=True)
    writes = ToolAnnotations(read_only_hint=False, destructive_hint=False)
    server.add_tool(tools.submit_handoff, annotations=writes)
    server.add_tool(tools.check_handoff, annotations=reads)
    server.add_tool(tools.get_verdict, annotations=writes)
    server.add_tool(tools.list_blocked, annotations=reads)
    server.add_tool(tools.explain_code, annotations=reads)
    return server


def _submission(
    source: str, target: str, data: Any, kind: str, context: dict[str, Any] | None, evidence: list[Any] | None
) -> dict[str, Any]:
    document = {"source_agent_id": source, "target_agent_id": target, "handoff_type": kind, "data": data}
    beside = {"context": context, "evidence": evidence}
    return {"document": document} | {name: value for name, value in beside.items() if value is not None}


def _judgement(found: dict[str, Any], url: str) -> Judgement:
    state = str(found.get("state") or "received")
    findings, total = _findings(found.get("verdict") or found)
    approval = found.get("approval")
    why = _TEXTS.get(state, _NO_VERDICT)
    if state == "superseded" and isinstance(found.get("superseded_by"), dict):
        why = f"{why[:-1]}, {found['superseded_by'].get('handoff_id')}."
    return Judgement(
        state=state,
        may_start=state == "accepted",
        why=why,
        handoff_id=str(found.get("handoff_id") or ""),
        findings=findings,
        findings_total=total,
        approval=str(approval.get("status")) if isinstance(approval, dict) else "",
        page=_page(found, url),
    )


def _findings(verdict: dict[str, Any]) -> tuple[list[FindingOut], int]:
    """Return the most severe findings of a verdict, and the number of all findings."""
    ranks = ("critical", "error", "warning", "info")
    issues = [one for one in verdict.get("issues") or () if isinstance(one, dict)]
    issues.sort(key=lambda one: ranks.index(one["severity"]) if one.get("severity") in ranks else len(ranks))
    return [
        FindingOut(
            code=_cut(one.get("code"), _LONGEST_TEXT),
            severity=str(one.get("severity")),
            path=_cut(one.get("field_path"), _LONGEST_TEXT),
            message=_cut(one.get("message"), _LONGEST_TEXT),
            hint=_cut(one.get("hint"), _LONGEST_TEXT),
        )
        for one in issues[:_MOST_FINDINGS]
    ], len(issues)


def _describe_blocked(item: dict[str, Any], url: str) -> BlockedOut:
    return BlockedOut(
        handoff_id=item["handoff_id"],
        state=item["state"],
        source_agent=_cut(item["source_agent_id"], _LONGEST_TEXT),
        target_agent=_cut(item["target_agent_id"], _LONGEST_TEXT),
        handoff_type=_cut(item["handoff_type"], _LONGEST_TEXT),
        trace_id=item["trace_id"],
        codes=item["codes"][:_MOST_CODES],
        flags=[name for name, is_set in item["flags"].items() if is_set],
        received_at=item["received_at"],
        page=_page(item, url),
    )


def _page(found: dict[str, Any], url: str) -> str:
    page = str((found.get("links") or {}).get("page") or "")
    return f"{url}{page}" if page.startswith("/") else page


def _example(document: Any) -> str:
    text = document if isinstance(document, str) else json.dumps(document, ensure_ascii=False)
    return _cut(text, _LONGEST_EXAMPLE)


def _cut(value: Any, most: int = _LONGEST_TEXT) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
