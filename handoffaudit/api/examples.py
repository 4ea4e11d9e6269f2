"""Request bodies as the documentation shows them; a test submits each one."""

from typing import Any

from handoffaudit.validation.formats import BY_NAME

PAYLOAD: dict[str, Any] = {
    "handoff_id": "h-2026-0001",
    "source_agent_id": "researcher",
    "target_agent_id": "writer",
    "tenant_id": "default",
    "call_chain": ["planner", "researcher"],
    "handoff_type": "research_result",
    "data": {"summary": "Three suppliers deliver within a week.", "suppliers": 3},
    "confidence": 0.9,
    "timestamp": "2026-02-15T00:15:00Z",
}

UNIVERSAL: dict[str, Any] = {
    "handoff": {
        "version": "3.0",
        "schema_type": "universal",
        "timestamp": "2026-02-15T00:15:00Z",
        "trace_id": "6d31ae7b-f10f-4321-9d85-53001506d372",
        "source": {"skill": "architect", "workflow_id": "w-17", "session_path": "sessions/w-17", "phase": "design"},
        "target": {"skill": "builder"},
        "context": {"summary": "Build the base script of the orchestrator.", "problem_type": "implementation"},
        "payload": {"working": {"title": "Orchestrator", "files": ["orchestrator.py"]}},
        "meta": {"token_count": 120, "confidence": "high", "handoff_chain": ["architect"]},
    }
}

ENVELOPE: dict[str, Any] = {
    "format": "payload",
    "document": PAYLOAD,
    "context": {"question": "Who can deliver within a week?"},
    "trace_id": "t-42",
    "parent_handoff_id": "h-2026-0000",
    "step": 1,
}

_WRAPPED_SCHEMA = {
    "type": "object",
    "required": ["document"],
    "additionalProperties": False,
    "properties": {
        "format": {
            "type": "string",
            "enum": list(BY_NAME),
            "description": "Recognised by shape if left out.",
        },
        "document": {"type": "object", "description": "The handoff. Its schemas: /api/v1/schemas/{name}.json."},
        "context": {"type": "object", "description": "What the data may rest on."},
        "evidence": {"type": "array", "items": {"type": "object"}},
        "trace_id": {"type": "string", "maxLength": 200},
        "parent_handoff_id": {"type": "string", "maxLength": 200},
        "retry_of": {
            "type": "string",
            "maxLength": 200,
            "description": "The handoff_id that this one takes the place of.",
        },
        "handoff_id": {"type": "string", "maxLength": 200, "description": "Where the document has none of its own."},
        "agent": {"type": "string", "maxLength": 200, "description": "The source, where the document names none."},
        "step": {"type": "integer"},
        "adapt": {
            "type": "boolean",
            "default": False,
            "description": "Lift an older version of the format to the one that is read.",
        },
        "repair": {
            "type": "boolean",
            "default": False,
            "description": "Repair it where it is rejected: what passes is stored as a new attempt.",
        },
    },
}
_SINGLE_SCHEMA = {"oneOf": [_WRAPPED_SCHEMA, {"type": "object", "description": "The bare document."}]}

_PREFER = {
    "name": "Prefer",
    "in": "header",
    "schema": {"type": "string"},
    "description": "`wait=N`: wait up to N seconds (at most 60) for the verdict.",
    "example": "wait=10",
}

SUBMIT: dict[str, Any] = {
    "parameters": [_PREFER],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _SINGLE_SCHEMA,
                "examples": {
                    "submission": {"summary": "A document with what stands beside it", "value": ENVELOPE},
                    "payload": {"summary": "A bare payload", "value": PAYLOAD},
                    "universal": {"summary": "A bare universal handoff", "value": UNIVERSAL},
                },
            }
        },
    },
}

JUDGE: dict[str, Any] = {"requestBody": SUBMIT["requestBody"]}

BATCH: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "array", "maxItems": 1000, "items": _SINGLE_SCHEMA},
                "example": [ENVELOPE, UNIVERSAL],
            },
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    },
}
