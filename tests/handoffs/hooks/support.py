"""Hook events in the form that Claude Code sends, and a worker that judges and asks the LLM."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
from django.db import OperationalError, connections

from handoffaudit.handoffs import judge
from handoffaudit.handoffs.llm import run
from tests.messages_api.scripted import Scripted, says

SESSION = "6f0d2c4e-51aa-4f6c-9d59-2b1f6a4a7c10"
PHASE = "semantic_Agent_6f0d2c4e"
PROMPT = "List the open invoices with their amounts."
FOUND = "Two are open: 2026-003 over 120.00 EUR and 2026-007 over 80.50 EUR."
PASSED = {"status": "PASSED", "reasoning": "Both are listed.", "confidence": 0.93}
FAILED = {"status": "FAILED", "reasoning": "The amounts are missing.", "confidence": 0.88}


def event(name: str, **changes: Any) -> dict[str, Any]:
    common = {
        "session_id": SESSION,
        "transcript_path": "/home/ada/.claude/projects/books/6f0d2c4e.jsonl",
        "cwd": "/home/ada/books",
        "permission_mode": "default",
        "hook_event_name": name,
    }
    return common | changes


def before(call: str = "toolu_01A", **changes: Any) -> dict[str, Any]:
    task = {"prompt": PROMPT, "description": "Open invoices", "subagent_type": "bookkeeper"}
    return event("PreToolUse", tool_name="Agent", tool_use_id=call, tool_input=task) | changes


def after(call: str = "toolu_01A", text: str = FOUND, agent: str = "a81c3f", **changes: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    response = {"agentId": agent, "status": "completed", "totalTokens": 1840, "content": content}
    return before(call) | {"hook_event_name": "PostToolUse", "tool_response": response} | changes


def launched(call: str = "toolu_01A", agent: str = "a81c3f") -> dict[str, Any]:
    return after(call) | {"tool_response": {"agentId": agent, "status": "async_launched"}}


def start(agent: str = "a81c3f", **changes: Any) -> dict[str, Any]:
    return event("SubagentStart", agent_id=agent, agent_type="bookkeeper") | changes


def stop(agent: str = "a81c3f", text: str = FOUND, **changes: Any) -> dict[str, Any]:
    own = {"stop_hook_active": False, "last_assistant_message": text, "agent_transcript_path": "/home/ada/agent.jsonl"}
    return start(agent) | {"hook_event_name": "SubagentStop"} | own | changes


def met() -> Scripted:
    return says(PASSED)


def not_met() -> Scripted:
    return says(FAILED)


def rules(status: str, mode: str = "fallback", severity: str = "error") -> dict[str, Any]:
    rule = {"rule_id": "report", "rule_type": "file_exists", "rule_config": {"file_path": "report.md"}}
    result = {"result_id": "r1", "rule_id": "report", "validated_at": "2026-02-15T00:15:00Z", "status": status}
    told = {"message": "report.md is not there"} if status == "failed" else {}
    return {"mode": mode, "rules": [rule | {"severity": severity}], "results": [result | told]}


def post(api: httpx.Client, body: Any, *, timeout: float = 600, key: str = "") -> dict[str, Any]:
    """Post one event, check that the status is 200, and return the answer."""
    sent = {"content": body} if isinstance(body, bytes) else {"json": body}
    headers = {"Idempotency-Key": key} if key else {}
    response = api.post(f"/hooks/post-tool-use?timeout={timeout}", headers=headers, timeout=60, **sent)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@contextmanager
def worker() -> Iterator[None]:
    """Judge waiting handoffs and ask the LLM, as workers do."""
    stopped = threading.Event()

    def work() -> None:
        while not stopped.wait(0.02):
            # A worker that finds the database locked looks again, too.
            with suppress(OperationalError):
                judge.drain()
                run.drain()
        connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def words(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an answer that the agent host reads."""
    return {name: answer[name] for name in ("decision", "hookSpecificOutput") if name in answer}


def gist(answer: dict[str, Any]) -> tuple[str, bool, int]:
    return answer["status"], answer["blocked"], answer["exit_code"]
