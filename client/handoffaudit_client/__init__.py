"""Client of handoffaudit: sends handoffs between AI agents, and asks whether the next agent may start.

The package needs nothing but the standard library. Modules that take time to import are loaded at their first use.
"""

from handoffaudit_client.async_client import AsyncClient
from handoffaudit_client.client import Client
from handoffaudit_client.verdict import Finding, Verdict

__all__ = ["AsyncClient", "Client", "Finding", "Verdict"]
