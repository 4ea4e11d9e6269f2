"""The Agents pages: the map and the lists, the page of one agent, and the declared routes."""
