curl 'http://127.0.0.1:8000/api/v1/handoffs' \
  -H 'Authorization: Bearer YOUR_KEY' \
  -H 'Content-Type: application/json' -H 'Prefer: wait=10' \
  -d '{
    "document": {
      "source_agent_id": "researcher", "target_agent_id": "writer",
      "handoff_type": "research_result",
      "data": {"summary": "Three suppliers deliver within a week."}
    }
  }'
