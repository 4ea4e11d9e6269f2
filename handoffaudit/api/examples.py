"""Request bodies that the API documentation shows; a test submits each body."""

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

EVIDENCE: dict[str, Any] = {
    "source": "offers",
    "content": "Acme, Berg and Cole: three suppliers deliver within a week.",
    "relevance": 0.9,
    "retrieved_at": "2026-02-15T00:10:00Z",
}

TOOL_RESULT: dict[str, Any] = {
    "tool": "get_offers",
    "call_id": "call_17",
    "agent": "researcher",
    "at": "2026-02-15T00:12:00Z",
    "arguments": {"within_days": 7},
    "result": {"suppliers": ["Acme", "Berg", "Cole"]},
}

# Each document has its own id, so that all of them can be sent one after the other, and again.
ENVELOPE: dict[str, Any] = {
    "format": "payload",
    "document": PAYLOAD
    | {
        "handoff_id": "h-2026-0002",
        "data": {
            "summary": "Three suppliers deliver within a week.",
            "suppliers": 3,
            "evidence_refs": {"summary": "offers"},
        },
    },
    "context": {"question": "Who can deliver within a week?"},
    "evidence": [EVIDENCE],
    "tool_results": [TOOL_RESULT],
    "trace_id": "t-42",
    "parent_handoff_id": "h-2026-0000",
    "step": 1,
}

# The document names no chain and no tenant: the chain is derived from the trace, and the key names the tenant.
TEXT: dict[str, Any] = {
    "document": {
        "source_agent_id": "writer",
        "target_agent_id": "reviewer",
        "handoff_type": "research_result",
        "data": "The draft is ready: three suppliers deliver within a week.",
    },
    "handoff_id": "h-2026-0006",
    "trace_id": "t-44",
    "reason": "The second draft has the figures that the reviewer missed.",
}

NAMED_UNIVERSAL: dict[str, Any] = {"handoff_id": "h-2026-0003", "document": UNIVERSAL}

MANY: list[dict[str, Any]] = [
    ENVELOPE | {"document": ENVELOPE["document"] | {"handoff_id": "h-2026-0004"}, "trace_id": "t-43"},
    {
        "handoff_id": "h-2026-0005",
        "document": {
            "handoff": UNIVERSAL["handoff"]
            | {
                "trace_id": "0e0d8f4c-6f0e-4c8e-9a55-3d9b5a0c1e77",
                "payload": {"working": {"title": "Tests of the orchestrator", "files": ["test_orchestrator.py"]}},
            }
        },
    },
]

_EVIDENCE_SCHEMA = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "description": "The name that `evidence_refs` in the data cites."},
        "content": {"description": "The content: a text, or any JSON."},
        "relevance": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": 1.0,
            "description": "Relevance, 0.0 to 1.0.",
        },
        "retrieved_at": {"type": "string", "format": "date-time", "description": "When the source was retrieved."},
    },
}

BODY_OF_A_SUBMISSION: dict[str, Any] = {
    "type": "object",
    "required": ["document"],
    "additionalProperties": False,
    "properties": {
        "format": {
            "type": "string",
            "enum": list(BY_NAME),
            "description": "The format; recognised by shape if omitted.",
        },
        "document": {"type": "object", "description": "The handoff. Its schemas: /api/v1/schemas/{name}.json."},
        "context": {"type": "object", "description": "The context that supports the data."},
        "evidence": {
            "type": "array",
            "items": _EVIDENCE_SCHEMA,
            "description": "The sources that support the data, each with `source` and `content`. The data cites them: "
            '`"evidence_refs": {"summary": "offers"}` inside `data`.',
        },
        "tool_results": {
            "type": "array",
            "maxItems": 200,
            "items": {"$ref": "#/components/schemas/ToolResultIn"},
            "description": "The results of the tools of the trace. They are evidence if the key has the scope "
            "`observe`; the key sets their grade.",
        },
        "trace_id": {
            "type": "string",
            "maxLength": 200,
            "description": "The id of the trace, the same for all handoffs of a piece of work. Loops and repeats are "
            "detected within a trace.",
        },
        "parent_handoff_id": {
            "type": "string",
            "maxLength": 200,
            "description": "The `handoff_id` of the previous handoff in the trace.",
        },
        "retry_of": {
            "type": "string",
            "maxLength": 200,
            "description": "The `handoff_id` of the handoff that this attempt replaces; the attempt needs a new id.",
        },
        "handoff_id": {
            "type": "string",
            "maxLength": 200,
            "description": "The id, if the document has none. The same content under the same id is stored once; other "
            "content is answered 409, unless the stored document is unreadable.",
        },
        "agent": {
            "type": "string",
            "maxLength": 200,
            "description": "The source agent of a handoff file or a framework record that names none. Other formats do "
            "not use it.",
        },
        "sent_at": {
            "type": "string",
            "format": "date-time",
            "description": "When the handoff happened, if you send it late (RFC 3339 with an offset). Lists, traces "
            "and rates use this time if it is within the 7 days before receipt, and else the time of receipt.",
        },
        "reason": {
            "type": "string",
            "description": "The reason of the handoff, if the document has no `handoff_reason`; at most "
            "2,000 characters are kept.",
        },
        "step": {"type": "integer", "description": "The number of the step in the trace, by your own numbering."},
        "adapt": {
            "type": "boolean",
            "default": False,
            "description": "Upgrade an older version of the format to the current version.",
        },
        "repair": {
            "type": "boolean",
            "default": False,
            "description": "Repair the handoff if it is rejected, and store a passing candidate as a new attempt.",
        },
    },
}
_DOCUMENT_SCHEMA = {"type": "object", "description": "The document alone, without fields beside it."}
_SINGLE_SCHEMA = {"oneOf": [BODY_OF_A_SUBMISSION, _DOCUMENT_SCHEMA]}


def _prefer(what: str) -> dict[str, Any]:
    return {
        "name": "Prefer",
        "in": "header",
        "schema": {"type": "string"},
        "description": f"`wait=N`: wait up to N seconds (at most 60) for {what}.",
        "example": "wait=10",
    }


SUBMIT: dict[str, Any] = {
    "parameters": [_prefer("the verdict")],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _SINGLE_SCHEMA,
                "examples": {
                    "submission": {"summary": "A document with context and evidence", "value": ENVELOPE},
                    "text": {"summary": "A text, without a tenant and a chain", "value": TEXT},
                    "payload": {"summary": "A payload alone", "value": PAYLOAD},
                    "universal": {"summary": "A universal handoff, with an id", "value": NAMED_UNIVERSAL},
                },
            }
        },
    },
}

JUDGE: dict[str, Any] = {"requestBody": SUBMIT["requestBody"]}

BATCH: dict[str, Any] = {
    "parameters": [_prefer("the verdicts on all items")],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "array", "maxItems": 1000, "items": _SINGLE_SCHEMA},
                "example": MANY,
            },
            "application/x-ndjson": {"schema": {"type": "string"}},
        },
    },
}

TRACE_EXPORT: dict[str, Any] = {
    "parameters": [_prefer("the verdicts on all handoffs")],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["data"],
                    "properties": {"data": {"type": "array", "items": {"type": "object"}}},
                },
                "example": {
                    "data": [
                        {
                            "object": "trace.span",
                            "id": "span_b7524ea9b59c4d50a5180c5a",
                            "trace_id": "trace_858f8f57dccd4b7aa132fedb793bcbe1",
                            "parent_id": "span_7e28a4da898e4fd597666855",
                            "started_at": "2026-02-15T00:15:00Z",
                            "span_data": {"type": "handoff", "from_agent": "triage", "to_agent": "researcher"},
                        }
                    ]
                },
            }
        },
    },
}

READ_ONE: dict[str, Any] = {"parameters": [_prefer("the verdict and, for a held handoff, the reviewer's decision")]}


def body_example(summary: str, value: Any) -> dict[str, Any]:
    """Return the OpenAPI extra with an example of a request body."""
    return {
        "requestBody": {"content": {"application/json": {"examples": {"one": {"summary": summary, "value": value}}}}}
    }


def policy_example(note: str, **rows: Any) -> dict[str, Any]:
    """Return an example of saving a policy for the first time, on top of the shipped policy."""
    return body_example(
        "First save, on the shipped policy; later, `base_version` is the `version` that GET answers",
        {"base_version": 0, "note": note, **rows},
    )
