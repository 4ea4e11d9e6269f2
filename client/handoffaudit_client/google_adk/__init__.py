"""Plug-in for Google ADK: `HandoffPlugin` observes the handoffs and tools of an app, and can stop handoffs.

    from google.adk import Agent
    from google.adk.apps import App
    from google.adk.runners import InMemoryRunner
    from handoffaudit_client.google_adk import HandoffPlugin

    writer = Agent(name="writer", model=model, description="Writes reports.")
    researcher = Agent(name="researcher", model=model, sub_agents=[writer])
    app = App(name="orders", root_agent=researcher, plugins=[HandoffPlugin()])
    runner = InMemoryRunner(app=app)

`docs/connect-google-adk.md` describes the settings and limits of the plug-in.
"""

from __future__ import annotations

from handoffaudit_client.plugins import lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from handoffaudit_client.google_adk.plugin import HandoffPlugin

__all__ = ["HandoffPlugin"]

__getattr__ = lazy(__name__, {"HandoffPlugin": "plugin"})
