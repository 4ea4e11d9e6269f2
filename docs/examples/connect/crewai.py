from crewai import Agent, Crew, Task
from handoffaudit_client.crewai import HandoffGate

gate = HandoffGate()
# `model` is your LLM, such as LLM("anthropic/claude-sonnet-5-5").
researcher = Agent(role="researcher", goal="Find suppliers.", backstory="A buyer.", llm=model)
writer = Agent(role="writer", goal="Write reports.", backstory="A writer.", llm=model)
find = Task(
    description="Find suppliers.",
    expected_output="Three names.",
    agent=researcher,
    guardrail=gate.guardrail("writer"),
)
report = Task(description="Report.", expected_output="A report.", agent=writer, context=[find])
print(Crew(agents=[researcher, writer], tasks=[find, report]).kickoff())
