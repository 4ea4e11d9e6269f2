import asyncio

from google.adk import Agent
from google.adk.runners import InMemoryRunner
from handoffaudit_client.google_adk import HandoffPlugin

# `model` is your model, such as "gemini-3-flash".
writer = Agent(name="writer", model=model, description="Writes reports.")
researcher = Agent(name="researcher", model=model, sub_agents=[writer])
runner = InMemoryRunner(researcher, app_name="orders", plugins=[HandoffPlugin()])
asyncio.run(runner.run_debug("Who delivers within a week?"))
