"""Drawings: pure functions that turn values into SVG and a text version, without Django and network access."""
