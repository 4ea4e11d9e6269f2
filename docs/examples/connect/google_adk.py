import asyncio
from uuid import uuid4

from google.adk import Agent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from handoffaudit_client.google_adk import HandoffPlugin

# `model` is your model, such as "gemini-3-flash".
writer = Agent(name="writer", model=model, description="Writes reports.")
researcher = Agent(name="researcher", model=model, sub_agents=[writer])
app = App(name="orders", root_agent=researcher, plugins=[HandoffPlugin()])
runner = InMemoryRunner(app=app)
asyncio.run(runner.run_debug("Who delivers within a week?", session_id=str(uuid4())))
