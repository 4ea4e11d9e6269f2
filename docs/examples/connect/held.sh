curl 'http://127.0.0.1:8000/api/v1/handoffs' \
  -H 'Authorization: Bearer YOUR_KEY' \
  -H 'Content-Type: application/json' -H 'Prefer: wait=10' \
  -d '{
    "document": {
      "source_agent_id": "planner-2", "target_agent_id": "writer",
      "call_chain": [
        "intake", "triage", "planner", "researcher", "checker", "planner-2"
      ],
      "handoff_type": "status_update",
      "data": {"summary": "Three suppliers deliver within a week."}
    }
  }'
