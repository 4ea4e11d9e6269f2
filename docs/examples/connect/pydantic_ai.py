from handoffaudit_client.pydantic_ai import HandoffCapability
from pydantic_ai import Agent

# `model` is your model, such as "anthropic:claude-sonnet-5-5".
writer = Agent(model, name="writer", instructions="Write a report.")
gate = HandoffCapability({"ask_writer": "writer"})
researcher = Agent(model, name="researcher", capabilities=[gate])


@researcher.tool_plain
async def ask_writer(findings: str) -> str:
    """Let the writer report the findings."""
    return (await writer.run(findings)).output


print(researcher.run_sync("Who delivers within a week?").output)
