"""A map of who hands to whom: agents in layers, lines through the room between them."""

from handoffaudit.drawing.agent_map.map import LOW_SHARE, MapAgent, MapEdge, agent_map

__all__ = ["LOW_SHARE", "MapAgent", "MapEdge", "agent_map"]
