from agents import Agent, Runner, add_trace_processor
from handoffaudit_client.openai_agents import HandoffProcessor, gated

add_trace_processor(HandoffProcessor())
writer = Agent(name="writer", instructions="Write a report of two sentences.")
researcher = Agent(
    name="researcher",
    instructions="Name three suppliers, then hand over to the writer.",
    handoffs=[gated(writer)],
)
result = Runner.run_sync(researcher, "Who delivers within a week?")
print(result.final_output)
