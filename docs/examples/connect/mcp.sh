claude mcp add handoffaudit \
  -e HANDOFFAUDIT_URL=http://127.0.0.1:8000 \
  -e HANDOFFAUDIT_KEY=YOUR_KEY \
  -- handoffaudit mcp
