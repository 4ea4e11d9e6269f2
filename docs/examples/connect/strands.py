from handoffaudit_client.strands import HandoffHooks
from strands import Agent
from strands.multiagent import Swarm

# `model` is your model, such as BedrockModel().
hooks = HandoffHooks()
researcher = Agent(name="researcher", model=model, hooks=[hooks])
writer = Agent(name="writer", model=model, hooks=[hooks])
swarm = Swarm([researcher, writer], entry_point=researcher)
result = swarm("Who delivers within a week?")
