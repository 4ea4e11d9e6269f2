const url = "http://127.0.0.1:8000";
const key = "YOUR_KEY";

const handoff = {
  source_agent_id: "researcher", target_agent_id: "writer", handoff_type: "research_result",
  data: { summary: "Three suppliers deliver within a week." },
};
const answer = await fetch(`${url}/api/v1/handoffs`, {
  method: "POST",
  headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", Prefer: "wait=10" },
  body: JSON.stringify({ document: handoff, trace_id: crypto.randomUUID() }),
  signal: AbortSignal.timeout(15_000),
});
const { state, detail, verdict, issues = verdict?.issues ?? [] } = await answer.json();
console.log(state === "accepted" ? "The writer may start." : (detail ?? state), issues);
